"""The documentation site: whole, complete, and readable without a network."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import gainful

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_site"))

import docstrings  # noqa: E402
import pages  # noqa: E402
import pictures  # noqa: E402
import which_ranker  # noqa: E402

MADE = {
    "index.md",
    "changes.md",
    "architecture.md",
    "contributing.md",
    "reference/rankers.md",
    "reference/command-line.md",
}


def in_navigation() -> set[str]:
    def leaves(part):
        if isinstance(part, str):
            return {part}
        below = part.values() if isinstance(part, dict) else part
        return set().union(*map(leaves, below))

    return leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as ``make docs`` builds it: any warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_docs_is_in_the_navigation():
    assert in_navigation() == {page.name for page in (ROOT / "docs").glob("*.md")} | MADE
    deeper = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").glob("*/*.md")}
    assert {*pages.titles("decisions"), *pages.titles("results")} == deeper


def test_every_page_of_docs_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in readme] == []


def test_every_public_name_is_explained(site):
    text = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    assert [name for name in gainful.__all__ if f'id="gainful.{name}"' not in text] == []
    assert [name for name in gainful.RANKERS if f'id="{name}"' not in text] == []


def test_the_site_asks_nothing_of_the_network(site):
    asked = re.compile(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*"')
    found = {page.name: asked.findall(page.read_text()) for page in site.rglob("*.html")}
    assert len(found) > 40
    assert {name: urls for name, urls in found.items() if urls} == {}


def test_the_page_of_rankers_holds_every_formula_paper_and_parameter():
    text = pages.rankers_page()
    for entry in gainful.RANKERS.values():
        assert f"{{ #{entry.name} }}" in text
        assert entry.paper in text
        section = text.split(f"### {entry.class_name}\n")[1].split("\n### ")[0]
        assert docstrings.introduction(entry.cls.__doc__) in section
        assert all(f"| `{name}` |" in section for name in entry.cls.parameters)


def test_the_page_of_commands_holds_every_command_and_option():
    text = pages.command_line_page()
    for name, command in pages.commands():
        section = text.split(f"## {name}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            written = parameter.opts if parameter.param_type_name == "option" else [parameter.name.upper()]
            assert all(one in section for one in written if not getattr(parameter, "hidden", False))
    assert "## gainful data convert" in text


def test_every_public_name_has_one_page():
    text = "".join(text for _, text in pages.interface_pages().values())
    assert sorted(re.findall(r"^::: gainful\.(\w+)$", text, re.MULTILINE)) == sorted(gainful.__all__)


def test_docstrings_become_markdown():
    assert doctest.testmod(docstrings).failed == 0
    text = docstrings.to_markdown(
        "A :class:`gainful.Ranker`::\n\n    x + y\n\n>>> 1\n1\n\n"
        "Attributes, here\n---\na_ : one,\n    more; or less\nb : 2; c : 3"
    )
    assert text == (
        "A `Ranker`:\n\n    x + y\n\n```pycon\n>>> 1\n1\n```\n\n**Attributes, here**\n\n"
        "- `a_`: one,\n    more; or less\n- `b`: 2\n- `c`: 3"
    )
    assert docstrings.to_markdown("====  ====\n``a``  one |\n       two\n====  ====").endswith("| ``a`` | one · two |")


@pytest.mark.parametrize("name", pictures.SOURCES)
def test_pictures_are_current_and_shown(name):
    made_from = json.loads((ROOT / "docs" / "pictures" / "made-from.json").read_text())
    assert made_from.get(name) == pictures.digest(name), "what it shows has changed since: run make pictures"
    assert any(f"pictures/{name}" in page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    assert (ROOT / "docs" / "pictures" / name).stat().st_size <= pictures.MOST_BYTES


def test_the_drawing_names_rankers():
    assert (ROOT / "docs" / "pictures" / "which-ranker.svg").read_text() == which_ranker.draw() + "\n"
    named = [names for _, names, _ in which_ranker.QUESTIONS] + [which_ranker.OTHERWISE[0]]
    assert {name for names in named for name in names.split(" · ")} <= set(gainful.RANKERS)


def test_the_search_ranks_guides_before_decisions(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    weights = {page["location"].partition("#")[0]: page.get("boost", 1.0) for page in index["docs"]}
    assert weights["comparing.html"] > weights["reference/rankers.html"] > weights["decisions/0016-tuning.html"]
