"""The notebooks of examples/ run from top to bottom, are stored without outputs and are listed in the docs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # those of Jupyter's own packages; the kernel is another process
def test_a_notebook_runs(path, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    import nbformat

    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [kind for output in outputs for kind in output.get("data", {})]
    assert "text/html" in shown
    assert "image/png" in shown
    errors = [output["text"] for output in outputs if output.get("name") == "stderr"]
    assert errors == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_listed(path):
    cells = json.loads(path.read_text())["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
    assert f"](../examples/{path.name})" in (ROOT / "docs" / "notebooks.md").read_text()


def test_there_are_three():
    assert len(NOTEBOOKS) == 3
