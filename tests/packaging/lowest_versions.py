"""The lowest versions that pyproject.toml declares, as pinned requirements (``make test-lowest``).

``python tests/packaging/lowest_versions.py pyproject.toml serve dask`` prints one line per requirement of the core and
of these extras: ``numpy>=2.0`` becomes ``numpy==2.0``, which installers read as 2.0.0. Everything else (what these need
in turn, the tools of the tests) comes as new as it may. Needs no package, as it runs before any is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+(?:\[[\w,-]+\])?)\s*(?P<bounds>[^;]*)")
OWN_EXTRA = re.compile(r"gainful\[([\w,]+)\]")


def lowest_versions(pyproject: Path, extras: list[str]) -> list[str]:
    """The requirements of the core and of the extras, each pinned to its lower bound."""
    project = tomllib.loads(pyproject.read_text())["project"]
    declared = [*project["dependencies"], *declared_by(project["optional-dependencies"], extras)]
    return list(dict.fromkeys(map(pinned, declared)))


def declared_by(all_extras: dict[str, list[str]], names: list[str]) -> list[str]:
    """The requirements of these extras, with those of the extras that they name: ``gainful[tools]``."""
    declared = []
    for requirement in (one for name in names for one in all_extras[name]):
        inner = OWN_EXTRA.fullmatch(requirement)
        declared += declared_by(all_extras, inner[1].split(",")) if inner else [requirement]
    return declared


def pinned(requirement: str) -> str:
    """``"lightgbm>=4.5,<4.8"`` → ``"lightgbm==4.5"``."""
    parts = REQUIREMENT.match(requirement)
    least = parts and re.search(r">=\s*([\w.]+)", parts["bounds"])
    if not parts or not least:
        raise SystemExit(f"{requirement!r} has no lower bound; give it one that was tried")
    return f"{parts['name']}=={least[1]}"


if __name__ == "__main__":
    print("\n".join(lowest_versions(Path(sys.argv[1]), sys.argv[2:])))
