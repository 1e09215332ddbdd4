"""Small corpora: three made-up objects, and a few modules of the standard library."""

from __future__ import annotations

from gainful.demo.corpus import SearchCorpus
from gainful.demo.library import LibraryObject

MODULES = [
    "bisect",
    "collections",
    "fractions",
    "heapq",
    "json",
    "shelve",
    "shutil",
    "statistics",
    "tempfile",
    "textwrap",
]
NO_USES: dict[str, dict[str, int]] = {"imports": {}, "names": {}, "calls": {}}


def made_up(name, doc, kind="function", parent="tools", parameters=(), members=(), code=()):
    return LibraryObject(name, kind, "tools", parent, parameters, members, doc, code)


def tools() -> SearchCorpus:
    """A module, a class with one method, and a function; nothing is long enough to be held out."""
    objects = [
        made_up("tools", "Work with ropes.", "module", "", None, ("Knot", "cutRope")),
        made_up("tools.Knot", "A knot in ropes.", "class", members=("untie",)),
        made_up("tools.Knot.untie", "Open it. Ropes become free.", "method", "tools.Knot", code=("pull_hard",)),
        made_up("tools.cutRope", "Cut ropes. Ropes get shorter.", parameters=("rope", "lengths")),
    ]
    return SearchCorpus(objects, {"imports": {"tools": 3}, "names": {"tools.cutRope": 2}, "calls": {"untie": 7}})
