"""One self-contained HTML page with sections, which includes its figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

Section = tuple[str, str, str]  # name, title, content


def html_page(
    title: str, created: str, answer: str, sections: Sequence[Section], name: str, data: Any, script: str = ""
) -> str:
    """The page. ``answer`` comes first; sections without content are left out; ``data`` is kept under ``name``.

    ``created`` is a time in ISO format, in UTC. ``script`` is code of this kind of page, after that of all pages.
    """
    shown = [section for section in sections if section[2]]
    links = "".join(f'<li><a href="#{one}">{heading}</a></li>' for one, heading, _ in shown)
    main = "".join(
        f'<section id="{one}" aria-labelledby="{one}-title"><h2 id="{one}-title">{heading}</h2>{html}</section>'
        for one, heading, html in shown
    )
    return Template(_asset("report.html")).substitute(
        title=escape(title),
        created=escape(f"{created[:10]}, {created[11:16]} UTC"),
        answer=answer,
        first=shown[0][0],
        links=links,
        main=main,
        name=name,
        data=_json(data),
        style=_asset("report.css"),
        script=_asset("report.js") + script,
    )


def _json(data: Any) -> str:
    """JSON, escaped so that it cannot close its script element."""
    return json.dumps(data).replace("<", "\\u003c").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return read_asset("gainful.report", name)


def read_asset(package: str, name: str) -> str:
    """A text file in the folder ``assets`` of a package."""
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")
