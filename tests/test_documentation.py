"""What the README, the pages of docs/ and the docstrings say is run, so that it stays true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gainful
from gainful import cli

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted([README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
SHELL = ("", "sh")  # the languages that blocks with commands are given
TUTORIAL = ROOT / "docs" / "tutorial.md"
NOT_RUN = {
    "gainful demo": "takes a minute; tests/demo runs it on a few modules",
    "gainful reproduce": "needs the papers' data, or many minutes",
    "gainful serve": "runs until it is stopped; the tutorial's server is started below, tests/serve has the rest",
}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(gainful.__path__, "gainful.")
    if not module.name.endswith(("__main__", "kernels"))
)


def all_blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language ("" for none named) and text."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for named, text in all_blocks(page) if named == language]


def commands(text: str) -> list[str]:
    """The gainful commands of a block, without their comments."""
    return [line.partition("  #")[0].strip() for line in text.splitlines() if line.startswith("gainful ")]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def runnable(page: Path) -> list[str]:
    """The commands of a page that end by themselves."""
    lines = [line for language in SHELL for block in blocks(page, language) for line in commands(block)]
    return [line for line in lines if not line.startswith(tuple(NOT_RUN))]


MOST_ROWS = 3000  # of artificial data on a page; what it prints is not looked at


@pytest.fixture
def small_data(monkeypatch):
    made = gainful.make_artificial

    def make_few(n_queries, *, n_docs=50, **more):
        return made(min(n_queries, MOST_ROWS // n_docs), n_docs=n_docs, **more)

    monkeypatch.setattr(gainful, "make_artificial", make_few)
    search = gainful.make_search
    monkeypatch.setattr(gainful, "make_search", lambda: search(["heapq", "shutil", "statistics", "textwrap"]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, and less time for auto."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gainful.comparison.contestants.AUTO_SECONDS", 1.0)
    return tmp_path


def bring_data() -> None:
    """Data and a model under the names that commands on the pages take for granted."""
    data = gainful.make_artificial(40, n_docs=12, n_features=6, seed=1)
    parts = gainful.split(data, (0.6, 0.2, 0.2))
    for name, part in zip(("train.txt", "valid.txt", "test.txt"), parts, strict=True):
        gainful.write(part, name)
    gainful.save(gainful.ranker("lambdamart", n_trees=5, n_jobs=1).fit(parts[0]), "model.gainful")
    few = gainful.make_artificial(3, n_docs=40, n_features=6, seed=2)
    ids = [f"GX{i:03d}" for i in range(40)] * 3
    gainful.write(gainful.RankingData.from_rows(few.X, few.y, few.qid + 41, doc_ids=ids), "data.txt")


def run_command(line: str, capsys) -> None:
    line = re.sub(r"--seconds \d+", "--seconds 1", line)
    assert cli.run(shlex.split(line)[1:]) == 0, f"{line}\n{capsys.readouterr().err}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if (blocks(p, "python") or runnable(p)) and p != TUTORIAL], ids=page_id
)
@pytest.mark.usefixtures("small_data")
def test_blocks_run(page, folder, capsys):
    """Python and the gainful commands of a page, one block after the other."""
    lines = runnable(page)
    if lines:
        bring_data()
    names = {"__name__": "page"}
    for language, text in all_blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
        for line in commands(text) if language in SHELL else ():
            if line in lines:
                run_command(re.sub(r"--queries \d+", "--queries 60", line), capsys)


def test_the_readme_counts_right():
    readme = README.read_text("utf-8")
    assert f"[{len(gainful.LOSSES)} losses]" in readme
    assert len(runnable(README)) >= 8


def test_the_tutorial_runs(folder, capsys):
    """Its blocks one after the other; its server is a process of its own, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    names, server, ran = {"__name__": "page"}, None, 0
    try:
        for language, text in all_blocks(TUTORIAL):
            block = text.replace("8017", port)
            if language == "python":
                exec(compile(block, str(TUTORIAL), "exec"), names)
            if language == "text":
                printed = capsys.readouterr().out
                strange = [n for n in figures(block) if not any(isclose(n, m, 2e-3) for m in figures(printed))]
                assert not strange, f"the tutorial shows {strange}, the command before it printed\n{printed}"
            for line in commands(block) if language in SHELL else ():
                ran += 1
                if line.startswith("gainful serve"):
                    server = subprocess.Popen([sys.executable, "-m", *shlex.split(line)], stderr=subprocess.DEVNULL)
                    wait_for(int(port), server)
                else:
                    run_command(line, capsys)
    finally:
        if server is not None:
            server.terminate()
            server.wait(timeout=30)
    assert ran >= 10
    assert server is not None
    assert (folder / "report" / "report.html").is_file()


def isclose(a: float, b: float, relative: float) -> bool:
    return abs(a - b) <= relative * max(abs(a), 1.0)


def figures(text: str) -> list[float]:
    """The numbers in a text; times are left out, they are another machine's."""
    untimed = re.sub(r"[\d.,]+ m?s\b", "", text)
    return [float(n) for n in re.findall(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)", untimed)]


def wait_for(port: int, server: subprocess.Popen) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server ended by itself"
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the server does not answer")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_are_true(name):
    if name == "gainful.losses.fused_pairs":
        pytest.importorskip("triton", reason="Triton comes with PyTorch's CUDA builds")
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what it is"
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_extras_are_installed_from_the_checkout(page):
    """gainful is not on a package index, so only a path can work."""
    assert "pip install 'gainful[" not in page.read_text("utf-8")


def test_decisions_are_numbered_without_gaps():
    numbers = sorted(int(page.name[:4]) for page in (ROOT / "docs" / "decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
