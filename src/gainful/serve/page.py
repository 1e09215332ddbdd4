"""The pages at ``/`` and ``/docs``: style and script are inside, and they send requests to this server only."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any


@cache
def page() -> tuple[str, str]:
    """The page, and a content security policy that allows only its own style and script."""
    from gainful.formats.table.writer import WELL_KNOWN

    style, rows, form = _asset("page.css"), _asset("rows.js"), _asset("page.js")
    script = f"{rows}\nconst ROLES = {json.dumps(WELL_KNOWN)};\n{form}"
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return _asset("page.html").replace("/*style*/", style).replace("/*script*/", script), policy


def routes_page(described: Mapping[str, Any]) -> tuple[str, str]:
    """A page of all routes, from their OpenAPI description, and its content security policy."""
    style = _asset("page.css")
    rows = "".join(
        f'<tr><th scope="row"><code>{method.upper()} {escape(path)}</code></th><td>{escape(route["summary"])}</td></tr>'
        for path, methods in described["paths"].items()
        for method, route in methods.items()
    )
    about = escape(described["info"]["description"])
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>gainful: routes</title><style>{style}</style></head><body><h1>Routes of this server</h1>"
        f"<table class='routes'><caption>{about}</caption><tbody>{rows}</tbody></table>"
        '<p>Bodies and answers are JSON; <a href="openapi.json">openapi.json</a> describes them in full. '
        '<a href="./">Try the model</a></p></body></html>'
    )
    return text, f"default-src 'none'; style-src {_hash(style)}; img-src data:; base-uri 'none'; frame-ancestors 'none'"


def _asset(name: str) -> str:
    return (files("gainful.serve") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
