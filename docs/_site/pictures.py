"""The pictures of the documentation, by headless Chromium from the pages of a demo: see ``make pictures``.

python docs/_site/pictures.py gainful-demo docs/pictures

``made-from.json`` beside them says of which sources each was made; a test compares it with the sources of today.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import which_ranker

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "search.png": ("src/gainful/demo/assets",),
    "report.png": ("src/gainful/report", "src/gainful/comparison/report"),
    "report-query.png": ("src/gainful/report", "src/gainful/comparison/report"),
    "server.png": ("src/gainful/serve/assets",),
    "comparison-plot.png": ("src/gainful/display/plots.py",),
    "which-ranker.svg": ("docs/_site/which_ranker.py",),
}
QUERY = "Helper class to quickly write a loop over all standard input files."
MODULES = ["heapq", "shutil", "statistics", "textwrap", "json", "csv"]
REPORT_VIEWS = {
    "report.png": "0",
    "report-query.png": "document.querySelector('#explorer select[size]').scrollIntoView()",
}
COMPARED = ["regression", "listnet", "lambdamart:n_trees=60:n_jobs=1", "mcrank:n_trees=30:n_jobs=1"]
MOST_BYTES = 200_000


def main(demo: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    (target / "which-ranker.svg").write_text(which_ranker.draw() + "\n")
    draw_plot(target / "comparison-plot.png")
    with browser() as tab:
        tab.send("Emulation.setScrollbarsHidden", hidden=True)
        tab.resize(1080, 720)
        tab.open(f"{(demo / 'search.html').resolve().as_uri()}#q={quote(QUERY)}&open")
        tab.wait("document.readyState === 'complete'")
        tab.evaluate("new Promise((done) => setTimeout(done, 1500))")  # the page ranks as one types
        take(tab, target / "search.png")
        report = (demo / "report" / "report.html").resolve().as_uri()
        for name, script in (
            ("report.png", "0"),
            ("report-query.png", "document.querySelector('#queries').scrollIntoView()"),
        ):
            tab.resize(1080, 860)
            tab.open(report)
            tab.evaluate(script)
            tab.evaluate("new Promise((done) => setTimeout(done, 500))")
            take(tab, target / name)
        show_server(tab, target / "server.png")
    for name in SOURCES:
        size = (target / name).stat().st_size
        print(f"{target / name}: {size:,} bytes")
        if size > MOST_BYTES:
            sys.exit(f"{name} is larger than {MOST_BYTES:,} bytes; make its window smaller")
    (target / "made-from.json").write_text(json.dumps({name: digest(name) for name in SOURCES}, indent=1) + "\n")


def digest(picture: str) -> str:
    """Of all files that a picture is made from."""
    found = hashlib.sha256()
    for source in SOURCES[picture]:
        path = ROOT / source
        files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.suffix != ".pyc")
        for file in files:
            if file.is_file():
                found.update(file.read_bytes())
    return found.hexdigest()[:16]


@contextmanager
def browser() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "tests"))
    from devtools import Chromium

    with tempfile.TemporaryDirectory() as folder:
        tab = Chromium(Path(folder))
        try:
            yield tab
        finally:
            tab.close()


def take(tab: Any, target: Path) -> None:
    """What is in the window."""
    target.write_bytes(base64.b64decode(tab.send("Page.captureScreenshot")["data"]))


def show_server(tab: Any, target: Path) -> None:
    """Two models side by side on a query of a small search, with the reasons for the first pair."""
    import gainful

    made = gainful.make_search(MODULES)
    data = getattr(made, "data", made)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}.gainful") for name in ("linear", "trees")]
        for file, model in zip(files, (gainful.RegressionRanker(), gainful.LambdaMART(n_trees=40)), strict=True):
            gainful.save(model.fit(data), file)
        few = Path(folder, "rows.csv")
        gainful.write(data[:1], few)
        with serving(*files) as address:
            tab.resize(1080, 860)
            tab.open(address)
            tab.wait("sides !== null")
            tab.evaluate("$('rows').focus(); 0")
            tab.type(few.read_text())
            tab.press("Enter", 2)
            tab.wait("document.querySelector('tr[data-place]')")
            tab.click("tbody tr:nth-child(2) button")
            tab.wait("document.querySelector('#why h2')")  # which moves what stands below it
            tab.click("tbody tr:nth-child(6) button")
            tab.evaluate("document.querySelector('#rankings').scrollIntoView(); 0")
            tab.evaluate("new Promise((done) => setTimeout(done, 800))")
            take(tab, target)


@contextmanager
def serving(first: Path, second: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "gainful", "serve", str(first), "--beside", str(second), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if (event := json.loads(line))["event"] == "listening":
                yield event["url"]
                break
    finally:
        process.terminate()
        process.communicate()


def draw_plot(target: Path) -> None:
    import gainful

    data = gainful.make_artificial(300, n_docs=20, n_features=12, seed=1)
    found = gainful.compare(COMPARED, data)
    found.plot().figure.savefig(target, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
