"""Docstrings of the package as Markdown: sections with their ``name : text`` lists, doctests, tables, cross references.

Given to mkdocstrings as an extension of its parser, and used by ``pages.py`` for the page of all rankers.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

UNDERLINE = re.compile(r"-{3,}\s*")
ITEM = re.compile(r"(\w[\w., *]*?) : (.*)")
SEVERAL = re.compile(r"; (?=\w+ : )")
ROLE = re.compile(r":\w+:`~?([^`]*)`")
TABLE_RULE = re.compile(r"=+(\s+=+)+\s*")


def to_markdown(docstring: str) -> str:
    """The Markdown of a docstring as the package writes them.

    >>> print(to_markdown("A thing.\\n\\nParameters\\n----------\\na, b : numbers"))
    A thing.
    <BLANKLINE>
    **Parameters**
    <BLANKLINE>
    - `a`, `b`: numbers
    """
    head, sections = _sections(inspect.cleandoc(docstring).splitlines())
    parts = ["\n".join(_prose(head)).strip("\n")]
    for title, body in sections:
        parts.append(f"**{title}**\n\n" + "\n".join(_items(body)).strip("\n"))
    return ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", "\n\n".join(parts).strip())


def introduction(docstring: str) -> str:
    """What stands before the first section: what the thing is, its formula, its reference."""
    head, _ = _sections(inspect.cleandoc(docstring).splitlines())
    return to_markdown("\n".join(head))


def _sections(lines: list[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    starts = [i for i in range(len(lines) - 1) if lines[i] and UNDERLINE.fullmatch(lines[i + 1])]
    ends = [*starts, len(lines)][1:]
    sections = [
        (ROLE.sub(r"`\1`", lines[start]), lines[start + 2 : end]) for start, end in zip(starts, ends, strict=True)
    ]
    return lines[: starts[0]] if starts else lines, sections


def _prose(lines: list[str]) -> list[str]:
    """Paragraphs, with fences around doctests; tables drawn with equals signs become tables."""
    out: list[str] = []
    session, table = False, []
    for line in [*lines, ""]:
        if session and not line:
            out.append("```")
            session = False
        if not session and line.startswith(">>> "):
            out.append("```pycon")
            session = True
        if table or TABLE_RULE.fullmatch(line):
            table.append(line)
            if len(table) > 1 and TABLE_RULE.fullmatch(line):
                out.extend(_table(table))
                table = []
            continue
        out.append(line if session else re.sub(r"::$", ":", line))
    return out[:-1]


def _table(lines: list[str]) -> list[str]:
    """Rows of two columns between rules; a row without its first cell goes on with the one above."""
    start = lines[0].rindex(" ") + 1
    rows: list[list[str]] = []
    for line in lines[1:-1]:
        first, second = line[:start].strip(), line[start:].strip().replace("|", "·")
        if first:
            rows.append([first, second])
        else:
            rows[-1][1] += f" {second}"
    return ["| | |", "| --- | --- |", *(f"| {first} | {second} |" for first, second in rows)]


def _items(lines: list[str]) -> list[str]:
    """``name : text`` entries as a list; other paragraphs of the section stay as they are."""
    out: list[str] = []
    for line in _prose(lines):
        found = None if line.startswith((" ", "`")) else ITEM.fullmatch(line)
        if found is None:
            out.append(line)
            continue
        for part in SEVERAL.split(line):
            names, _, text = part.partition(" : ")
            out.append(f"- {', '.join(f'`{name.strip()}`' for name in names.split(','))}: {text}")
    return out


class ReadableDocstrings(griffe.Extension):
    """Rewrites every docstring once the package has been read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None and not obj.is_module:
            obj.docstring.value = to_markdown(obj.docstring.value)
