"""Called by mkdocs: adds the pages that are made rather than written, and what the navigation needs of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import pages


def on_config(config: Any) -> Any:
    """The Python interface goes into the reference, and the decisions get their own part of the navigation."""
    for part in config.nav:
        if "Reference" in part:
            part["Reference"][2:2] = [{title: page} for page, (title, _) in pages.interface_pages().items()]
        if "Decisions" in part:
            part["Decisions"] = ["decisions/index.md", *listed("decisions")]
        if "Explanation" in part:
            part["Explanation"].extend([{"Results": results}] if (results := listed("results")) else [])
    return config


def listed(folder: str) -> list[dict[str, str]]:
    return [{title: page} for page, title in pages.titles(folder).items()]


# Who searches wants a guide first, then a reference, then why it was decided so.
SEARCH_WEIGHTS = {"decisions/": 0.2, "results/": 0.4, "reference/": 1.0, "changes.md": 0.2}
GUIDE_WEIGHT = 2.0


def search_weight(path: str) -> float:
    """How much a hit on a page counts in the search of the site."""
    return next((weight for start, weight in SEARCH_WEIGHTS.items() if path.startswith(start)), GUIDE_WEIGHT)


def on_page_markdown(markdown: str, *, page: Any, **kwargs: Any) -> str:
    """Pages that stand alone in the navigation use its space; links to the examples lead to the site's copies."""
    page.meta.setdefault("search", {}).setdefault("boost", search_weight(page.file.src_uri))
    if page.file.src_uri in ("index.md", "tutorial.md", "questions.md"):
        page.meta["hide"] = ["navigation"]
    return markdown.replace("](../examples/", "](examples/")


def on_files(files: Any, *, config: Any) -> Any:
    made = {
        "index.md": pages.from_root("README.md"),
        "changes.md": pages.from_root("CHANGELOG.md"),
        "architecture.md": pages.from_root("ARCHITECTURE.md"),
        "contributing.md": pages.from_root("CONTRIBUTING.md"),
        "decisions/index.md": pages.decisions_page(),
        "reference/rankers.md": pages.rankers_page(),
        "reference/command-line.md": pages.command_line_page(),
        **{page: text for page, (_, text) in pages.interface_pages().items()},
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    for notebook in sorted((pages.ROOT / "examples").glob("*.ipynb")):
        files.append(File.generated(config, f"examples/{notebook.name}", abs_src_path=str(notebook)))
    return files
