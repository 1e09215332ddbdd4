"""The bodies of requests and answers, as OpenAPI shows them. Requests are parsed strictly: a string is not a number."""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from gainful.errors import DataError, shorten
from gainful.explanation.explain import PairShare

LONGEST_ID = 1000
FARTHEST = sys.float_info.max
KINDS = ("list", "dict", "nullable", "constrained-str", "int", "str", "function-before")  # pydantic's names
Number = Annotated[float, Field(allow_inf_nan=False)]


# pydantic collects every mistake, at a kilobyte each, and we report only the first: lists stop at it (fail_fast),
# mappings and unknown fields are cut down to it.


def _cut_to_first_wrong(features: Any) -> Any:
    """The mapping unchanged if all its values are numbers, else its first entry that is not."""
    if isinstance(features, dict):
        for name, value in features.items():
            if value is not None and not (type(value) in (int, float) and -FARTHEST <= value <= FARTHEST):
                return {name: value}
    return features


Features = Annotated[
    Annotated[list[Number | None], Field(fail_fast=True)]
    | Annotated[dict[str, Number | None], BeforeValidator(_cut_to_first_wrong)],
    Field(
        union_mode="left_to_right",
        description="Numbers in the order of training, or a mapping from feature names (f1, f2, … if the model has "
        "no names). null or an omitted name means missing, which not every model accepts.",
    ),
]
Id = Annotated[str, Field(max_length=LONGEST_ID)] | int
TopFeatures = Annotated[
    int | None,
    Field(ge=1, description="How many features to show in each explanation, largest first; null for all."),
]


class Body(BaseModel):
    """What all requests share."""

    model_config = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _cut_to_first_unknown(cls, given: Any) -> Any:
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields):
            return given
        unknown = next(name for name in given if name not in cls.model_fields)
        return {name: given[name] for name in cls.model_fields if name in given} | {unknown: given[unknown]}


class Document(Body):
    id: Id | None = Field(default=None, description="Returned with the answer; null: the document's position, from 0.")
    features: Features


class Query(Body):
    id: Id | None = Field(default=None, description="Returned with the answer.")
    documents: Annotated[list[Document], Field(fail_fast=True)]


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

    documents: Annotated[list[Document], Field(fail_fast=True)] | None = Field(
        default=None, description="The documents of one query."
    )
    queries: Annotated[list[Query], Field(fail_fast=True)] | None = Field(
        default=None, description="Several queries, each with its documents."
    )
    top: int | None = Field(default=None, ge=1, description="How many documents to return per query; null for all.")
    contributions: bool = Field(
        default=False,
        description="Also return what each feature adds to each score. Slow for large tree models.",
    )
    top_features: TopFeatures = None


class ScoreRequest(Body):
    rows: Annotated[list[Features], Field(fail_fast=True)] = Field(description="The features of each row.")
    contributions: bool = Field(default=False, description="Also return what each feature adds to each score.")
    top_features: TopFeatures = None


class PairRequest(Body):
    """Two documents: why is a above b?"""

    a: Features
    b: Features
    top_features: TopFeatures = None


# -- answers -----------------------------------------------------------------------------------------------------------


class FeatureShare(BaseModel):
    feature: str
    value: float | str | None
    contribution: float


class ExplanationBody(BaseModel):
    """score = base + Σ contributions + rest."""

    score: float
    base: float
    features: list[FeatureShare]
    rest: float = Field(description="The sum over the features not shown.")


class RankedDocument(BaseModel):
    rank: int
    id: str | int
    place: int = Field(description="The position of the document in the request, from 0.")
    score: float
    explanation: ExplanationBody | None = None


Impression = Annotated[
    str | None,
    Field(description="If the server interleaves: the id of this list, which clicks refer to; null if it is not one."),
]


class RankedQuery(BaseModel):
    id: str | int | None
    impression: Impression = None
    documents: list[RankedDocument]


class RankAnswer(BaseModel):
    """``documents`` or ``queries``, as in the request; best first, equal scores in the order given."""

    model_version: str
    impression: Impression = None
    documents: list[RankedDocument] | None = None
    queries: list[RankedQuery] | None = None


class ScoreAnswer(BaseModel):
    model_version: str
    scores: list[float]
    explanations: list[ExplanationBody] | None = None


class PairAnswer(BaseModel):
    """difference = score_a − score_b = Σ differences + rest."""

    model_version: str
    score_a: float
    score_b: float
    difference: float
    features: list[PairShare]
    rest: float


class ModelFacts(BaseModel):
    model_version: str
    file: str = Field(description="The name of the model's file.")
    ranker: str
    parameters: dict[str, Any]
    n_features: int
    feature_names: list[str] | None
    text_features: list[str] = Field(description="The features that take text.")
    accepts_missing: bool
    contributions: bool
    why_no_contributions: str | None
    iterations: int
    loaded_at: str
    refused: str | None = Field(description="Why the current file is not in use; null if it is.")


class ModelAnswer(ModelFacts):
    limits: dict[str, float]
    interleaved: dict[str, Any] | None = Field(description="The second model, if the server interleaves.")
    beside: ModelFacts | None = Field(description="The second model, which answers under /b; null if there is none.")


class StateAnswer(BaseModel):
    status: str
    model_version: str | None = None


class ErrorAnswer(BaseModel):
    error: str = Field(description="One line: what is wrong, where, and what was expected.")


Request = TypeVar("Request", bound=BaseModel)


# -- reading -----------------------------------------------------------------------------------------------------------


class NotReadableError(DataError):
    """A body that cannot be read at all."""


def read_json(body: bytes) -> Any:
    """The plain values of a body."""
    try:
        return from_json(body)
    except ValueError as error:
        raise NotReadableError(f"the body is not JSON ({error})") from None


def count_rows(given: Any) -> int:
    """Documents in a body, counted before they are parsed. A query counts as at least one."""
    if not isinstance(given, dict):
        return 0
    queries = given.get("queries")
    parts = [given.get("rows"), given.get("documents")]
    found = sum(len(part) for part in parts if isinstance(part, list))
    for query in queries if isinstance(queries, list) else ():
        inside = query.get("documents") if isinstance(query, dict) else None
        found += max(1, len(inside)) if isinstance(inside, list) else 1
    return found


def parse(kind: type[Request], given: Any) -> Request:
    """The request in these plain values, or a DataError with one line about the first mistake."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise DataError(_one_line(error)) from None


def _one_line(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    # A union fails once per member: the member with the longest location is the one that was meant.
    first = max(found, key=lambda e: len(e["loc"]))
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"] if not _is_kind(part)
    ).lstrip(".")
    expected = first["msg"].removeprefix("Input should be ")
    found_text = "" if first["type"] in ("missing", "extra_forbidden") else f", was {shorten(first['input'], 40)}"
    match first["type"]:
        case "missing":
            return f"{place} is missing"
        case "list_type" | "dict_type" if place.endswith(("features", "]")) or place in ("a", "b"):
            return f"{place} must be a list of numbers or a mapping from names to numbers{found_text}"
        case "model_type":
            return f"{place or 'the body'} must be an object{found_text}"
        case "extra_forbidden":
            return f"{place} is not a field of this request"
        case "int_type" | "string_type" if place.endswith("id"):
            return f"{place} must be a string or a whole number{found_text}"
        case _:
            expected = expected if expected != first["msg"] else expected[0].lower() + expected[1:]
            return f"{place or 'the body'} must be {expected}{found_text}"


def _is_kind(part: object) -> bool:
    """Whether this part of a location names a member of a union rather than a place in the body."""
    return isinstance(part, str) and part.split("[")[0] in KINDS
