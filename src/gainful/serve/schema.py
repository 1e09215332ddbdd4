"""The bodies of requests and answers, as OpenAPI shows them. Requests are read strictly: a text is no number."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gainful.errors import DataError, shorten

LONGEST_ID = 1000
Number = Annotated[float, Field(allow_inf_nan=False)]
Features = Annotated[
    list[Number | None] | dict[str, Number | None],
    Field(
        union_mode="left_to_right",
        description="Numbers in the order of training, or a mapping from feature names (numbers from 1 where the model "
        "has no names). null, or a name left out: missing, which not every model takes.",
    ),
]
Id = Annotated[str, Field(max_length=LONGEST_ID)] | int
TopFeatures = Annotated[
    int | None,
    Field(ge=1, description="Features shown in each explanation, those that add most; null for all of them."),
]


class Body(BaseModel):
    """What all requests share."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Document(Body):
    id: Id | None = Field(default=None, description="Comes back with the answer; null: the document's place, from 0.")
    features: Features


class Query(Body):
    id: Id | None = Field(default=None, description="Comes back with the answer.")
    documents: list[Document]


class RankRequest(Body):
    """The documents of one query, or several queries at once."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "required": ["documents"],
                    "properties": {"documents": {"type": "array"}, "queries": {"type": "null"}},
                },
                {"required": ["queries"], "properties": {"queries": {"type": "array"}, "documents": {"type": "null"}}},
            ]
        }
    )

    documents: list[Document] | None = Field(default=None, description="The documents of one query.")
    queries: list[Query] | None = Field(default=None, description="Several queries, each with its documents.")
    top: int | None = Field(default=None, ge=1, description="Documents answered for each query; null for all of them.")
    contributions: bool = Field(
        default=False, description="Also what each feature adds to each score. Slow for large tree models: ask for few."
    )
    top_features: TopFeatures = None


class ScoreRequest(Body):
    rows: list[Features] = Field(description="The features of each row.")
    contributions: bool = Field(default=False, description="Also what each feature adds to each score.")
    top_features: TopFeatures = None


class PairRequest(Body):
    """Two documents: why is a above b?"""

    a: Features
    b: Features
    top_features: TopFeatures = None


# -- answers -----------------------------------------------------------------------------------------------------------


class FeatureShare(BaseModel):
    feature: str
    value: float | None
    contribution: float


class ExplanationBody(BaseModel):
    """score = base + Σ contributions + rest."""

    score: float
    base: float
    features: list[FeatureShare]
    rest: float = Field(description="What the features not shown add together.")


class RankedDocument(BaseModel):
    rank: int
    id: str | int
    place: int = Field(description="Where the document stood in the request, from 0.")
    score: float
    explanation: ExplanationBody | None = None


class RankedQuery(BaseModel):
    id: str | int | None
    documents: list[RankedDocument]


class RankAnswer(BaseModel):
    """``documents`` or ``queries``, as in the request; best first, equal scores in the order given."""

    model_version: str
    documents: list[RankedDocument] | None = None
    queries: list[RankedQuery] | None = None


class ScoreAnswer(BaseModel):
    model_version: str
    scores: list[float]
    explanations: list[ExplanationBody] | None = None


class PairShareBody(BaseModel):
    feature: str
    value_a: float | None
    value_b: float | None
    contribution_a: float
    contribution_b: float
    difference: float


class PairAnswer(BaseModel):
    """difference = score_a − score_b = Σ differences + rest."""

    model_version: str
    score_a: float
    score_b: float
    difference: float
    features: list[PairShareBody]
    rest: float


class ModelAnswer(BaseModel):
    model_version: str
    ranker: str
    parameters: dict[str, Any]
    n_features: int
    feature_names: list[str] | None
    accepts_missing: bool
    contributions: bool
    why_no_contributions: str | None
    iterations: int
    loaded_at: str
    refused: str | None = Field(description="Why the file as it stands now is not in use, where it is not.")
    limits: dict[str, float]


class StateAnswer(BaseModel):
    status: str
    model_version: str | None = None


class ErrorAnswer(BaseModel):
    error: str = Field(description="One line: what was wrong, where, and what was expected.")


Request = TypeVar("Request", bound=BaseModel)


# -- reading -----------------------------------------------------------------------------------------------------------


class NotJsonError(DataError):
    """A body that cannot be read at all."""


def parsed(kind: type[Request], body: bytes) -> Request:
    """The request a body holds, or a DataError with one line about the first thing that is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            told = first["msg"].removeprefix("Invalid JSON: ")
            raise NotJsonError(f"the body is not JSON ({told})") from None
        raise DataError(_one_line(error)) from None


def _one_line(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    # A value of a union fails once for each of its kinds: the longest way in is the kind that was meant.
    first = max(found, key=lambda e: (len(e["loc"]), -found.index(e)))
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"] if not _is_kind(part)
    ).lstrip(".")
    told = first["msg"].removeprefix("Input should be ")
    found_text = "" if first["type"] in ("missing", "extra_forbidden") else f", was {shorten(first['input'], 40)}"
    match first["type"]:
        case "missing":
            return f"{place} is missing"
        case "list_type" | "dict_type" if place.endswith("features") or place in ("a", "b"):
            return f"{place} must be a list of numbers or a mapping from names to numbers{found_text}"
        case "extra_forbidden":
            return f"{place} is not a field of this request"
        case "int_type" | "string_type" if place.endswith("id"):
            return f"{place} must be a text or a whole number{found_text}"
        case _:
            told = told if told != first["msg"] else told[0].lower() + told[1:]
            return f"{place or 'the body'} must be {told}{found_text}"


def _is_kind(part: object) -> bool:
    """Whether a part of a location names a member of a union rather than a place in the body."""
    return isinstance(part, str) and part.split("[")[0] in ("list", "dict", "nullable", "constrained-str", "int", "str")
