"""The package's addresses, and a README whose links work on a package index too. Called whenever the package is built.

In the repository links are relative, so that they work in a checkout and on the site; where it lies is said once, in
``pyproject.toml``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?![a-z]+:|#)([^()\s]+)\)")
PAGES = {"Documentation": "blob/HEAD/README.md", "Changes": "blob/HEAD/CHANGELOG.md", "Issues": "issues"}


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        source = self.config["source"]
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(readme, source)}
        metadata["urls"] = {"Source": source, **{name: f"{source}/{path}" for name, path in PAGES.items()}}


def with_absolute_links(text: str, source: str) -> str:
    """Markdown with its relative links led to the newest state of the repository: pictures as files, else pages."""

    def absolute(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        return f"{mark}[{words}]({source}/{'raw' if mark else 'blob'}/HEAD/{path})"

    return RELATIVE_LINK.sub(absolute, text)
