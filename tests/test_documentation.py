"""What the README, the pages of docs/ and the docstrings say is run, so that it stays true."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gainful

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(gainful.__path__, "gainful.")
    if not module.name.endswith(("__main__", "kernels"))
)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language ("" for none named)."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [text for named, text in fenced if named == language]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=page_id)
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    """The blocks of a page run one after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(page, "python")), str(page), "exec"), {"__name__": "page"})


def test_the_readmes_commands_run(tmp_path):
    commands = [
        line.partition("  #")[0].strip()
        for block in blocks(ROOT / "README.md", "")
        for line in block.splitlines()
        if line.startswith("gainful ")
    ]
    assert len(commands) >= 6
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert (tmp_path / "report" / "report.html").is_file()
    assert (tmp_path / "scores.txt").is_file()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_are_true(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what it is"
    assert doctest.testmod(module).failed == 0


def test_every_page_of_docs_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme


def test_decisions_are_numbered_without_gaps():
    numbers = sorted(int(page.name[:4]) for page in (ROOT / "docs" / "decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
