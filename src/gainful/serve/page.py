"""The page at ``/``: style and scripts are inside, and it sends requests to this server only."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files

SCRIPTS = ("rows.js", "csv_rows.js", "json_rows.js", "server.js", "views.js", "page.js")


@cache
def page() -> tuple[str, str]:
    """The page, and a content security policy that allows only its own style and script."""
    style, script = asset("page.css"), page_script()
    policy = f"{style_policy(style)}; script-src {_hash(script)}; connect-src 'self'; form-action 'none'"
    return asset("page.html").replace("/*style*/", style).replace("/*script*/", script), policy


def page_script() -> str:
    """The scripts of the page as one. The columns with a meaning are those of gainful's tables."""
    from gainful.formats.table.writer import WELL_KNOWN

    return "\n".join(['"use strict";', f"const ROLES = {json.dumps(WELL_KNOWN)};", *map(asset, SCRIPTS)])


def style_policy(style: str) -> str:
    """A content security policy that allows this style, and nothing from elsewhere."""
    return f"default-src 'none'; style-src {_hash(style)}; img-src data:; base-uri 'none'; frame-ancestors 'none'"


def asset(name: str) -> str:
    """The text of a file of the page."""
    return (files("gainful.serve") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
