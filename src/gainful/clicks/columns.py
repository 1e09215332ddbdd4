"""Which column of a logged table holds what: by the names that logs use, or as the caller says.

Only columns with a role are read. So the names of users, addresses and other personal fields stay in the file unless
the caller names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gainful.errors import DataError, ParameterError, UnknownNameError, option

# role → well-known names, best first, in lower case. Those with dots are fields of nested objects.
NAMES: dict[str, tuple[str, ...]] = {
    "page": ("page", "page_id", "impression", "impression_id", "serp_id", "search_id"),
    "session": ("session", "session_id", "sessionid"),
    "query": ("query", "user_query", "query_text", "search_term", "keyword", "qid", "query_id"),
    "position": ("position", "rank", "pos", "event_attributes.position.ordinal"),
    "document": (
        "document", "doc_id", "docid", "document_id", "doc", "url", "item", "item_id", "product_id", "object_id",
        "event_attributes.object.object_id",
    ),
    "clicked": ("clicked", "click", "is_click", "is_clicked"),
    "action": ("action_name",),
    "propensity": ("propensity", "propensity_score", "pscore"),
    "time": ("time", "timestamp"),
    "dwell": ("dwell", "dwell_time", "dwell_seconds"),
    "grade": ("grade", "label", "relevance"),
    "hits": ("query_response_hit_ids",),
}  # fmt: skip
EXPORTED = "_source."  # documents that were dumped from OpenSearch lie in this field
UBI_PAGE = "query_id"  # OpenSearch's User Behavior Insights: a query_id per search, and the text in user_query
PERSONAL = ("user", "user_id", "userid", "client_id", "ip", "email", "visitor_id", "customer_id", "device_id")

Named = str | bool | None


@dataclass(frozen=True)
class Roles:
    """The column of each role that the table has, and the feature columns."""

    columns: dict[str, str]
    features: tuple[str, ...] = ()

    def __contains__(self, role: str) -> bool:
        return role in self.columns

    def __getitem__(self, role: str) -> str:
        return self.columns[role]

    @property
    def all_columns(self) -> list[str]:
        return list(dict.fromkeys([*self.columns.values(), *self.features]))


def find_roles(names: Sequence[str], given: Mapping[str, Named], features: Sequence[str]) -> Roles:
    """The roles of the columns with these names; ``given`` has what the caller says, False for "there is none"."""
    lower = {name.lower().removeprefix(EXPORTED): name for name in reversed(names)}
    columns: dict[str, str] = {}
    for role, known in NAMES.items():
        named = given.get(role)
        if isinstance(named, str):
            if named not in names:
                raise UnknownNameError.among("column", named, names)
            columns[role] = named
        elif named is None:
            found = next((lower[name] for name in known if name in lower), None)
            if found is not None:
                columns[role] = found
        elif named is not False:
            raise ParameterError.of("read_clicks", role, "the name of a column, or False", named)
    _follow_ubi(columns, lower, given)
    for name in features:
        if name not in names:
            raise UnknownNameError.among("column", name, names)
    return Roles(columns, tuple(features))


def _follow_ubi(columns: dict[str, str], lower: Mapping[str, str], given: Mapping[str, Named]) -> None:
    """In OpenSearch's logs, ``query_id`` names the page."""
    is_ubi = "action" in columns or is_named(columns.get("query"), "user_query")
    if is_ubi and UBI_PAGE in lower and "page" not in columns and given.get("page") is None:
        columns["page"] = lower[UBI_PAGE]


def is_named(column: str | None, name: str) -> bool:
    """Whether a column has this well-known name."""
    return column is not None and column.lower().removeprefix(EXPORTED) == name


def check_roles(roles: Roles, names: Sequence[str], has_events: bool) -> None:
    """Raise if a role that every log needs has no column."""
    if "hits" in roles:
        if "page" not in roles:
            raise DataError("the searches have no query_id, which clicks refer to")
        if not has_events:
            raise DataError(
                "the file lists searches and their hits, without clicks; give the file of events with "
                f"{option('events')}"
            )
        return
    if has_events:
        raise DataError(f"{option('events')} goes with a file of searches that has the field query_response_hit_ids")
    needed = ["query", "document"] + ([] if "action" in roles else ["clicked"])
    absent = [role for role in needed if role not in roles]
    if "session" not in roles and "page" not in roles:
        absent.insert(0, "session")
    if absent:
        personal = [name for name in names if name.lower() in PERSONAL]
        why = f" ({', '.join(personal)} may be personal and is only read if you name it)" if personal else ""
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        raise DataError(
            f"no column is the {absent[0]}; name it with {option(absent[0])}; the columns are {listed}{why}"
        )


def as_roles(given: Mapping[str, Any]) -> dict[str, Named]:
    """The keywords of ``read_clicks`` that name columns."""
    return {role: given[role] for role in NAMES if role in given}
