"""The page at ``/``: one file with its style and script inside, which asks this server and no other."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def page() -> tuple[str, str]:
    """The page, and the content security policy that lets nothing but its own style and script run."""
    assets = files("gainful.serve") / "assets"
    style, script = (assets.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    text = assets.joinpath("page.html").read_text("utf-8")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.replace("/*style*/", style).replace("/*script*/", script), policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
