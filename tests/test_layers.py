"""Imports point one way: from the command line down to the data, never back."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gainful"

# From the bottom up: a folder may import from itself and from those before it. There is nothing else at the top.
LAYERS = [
    "errors",
    "display",
    "report",
    "data",
    "compute",
    "metrics",
    "statistics",
    "formats",
    "cluster",
    "inputs",
    "persistence",
    "parameters",
    "training",
    "clicks",
    "losses",
    "solvers",
    "nets",
    "linear",
    "trees",
    "debiasing",
    "rankers",
    "foreign",
    "tuning",
    "blending",
    "explanation",
    "comparison",
    "costs",
    "exports",
    "integrations",
    "serve",
    "demo",
    "cli",
    "__main__",
]
LAYER_OF = {name: i for i, name in enumerate(LAYERS)}
HEAVY = {"numba", "lightgbm", "sklearn", "pyarrow", "torch", "scipy", "numpy", "typer", "rich", "pandas", "polars"}
HEAVY |= {"dask", "distributed"}


def family(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gainful"):
            names = [node.module] if node.module != "gainful" else [f"gainful.{alias.name}" for alias in node.names]
            found.update(names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.startswith("gainful"))
    return {family(name) for name in found} - {"", "__version__"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        return  # the door names everything and loads it on use
    assert own in LAYER_OF, f"{own} has no layer; add it to LAYERS"
    above = {name for name in imports_of(path) if LAYER_OF[name] > LAYER_OF[own]}
    assert not above, f"{path.name} imports from {above}, which are above it"


def test_every_module_is_in_a_folder():
    loose = {path.name for path in SOURCE.glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} < set(LAYERS)


def test_only_the_command_line_knows_the_reproduction_folder():
    found = {path for path in SOURCE.rglob("*.py") if re.search(r"(from|import) reproduction\b", path.read_text())}
    assert found == {SOURCE / "cli" / "experiments.py"}


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(' '.join(m for m in sys.modules if '.' not in m))"
    return set(
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    )


def test_import_gainful_loads_nothing_heavy():
    assert not loaded_after("import gainful").intersection(HEAVY)


def test_a_linear_models_predict_needs_no_compiler():
    code = """
import gainful, numpy as np
model = gainful.RegressionRanker()
model.coef_, model.intercept_, model.n_features_in_ = np.ones(2), 0.0, 2
model.predict(np.zeros((3, 2)))
"""
    assert not loaded_after(code) & {"numba", "lightgbm", "torch"}


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["--version"]])
def test_help_needs_no_compiler(arguments):
    loaded = loaded_after(f"from gainful.cli import run; run({arguments!r})")
    assert not loaded & {"numba", "lightgbm", "sklearn", "pyarrow", "scipy", "torch"}


def test_the_loader_reads_the_stub_as_type_checkers_do():
    import gainful

    imports = [
        node for node in ast.parse((SOURCE / "__init__.pyi").read_text()).body if isinstance(node, ast.ImportFrom)
    ]
    stub = {alias.name: node.module for node in imports for alias in node.names}
    assert all(alias.asname == alias.name for node in imports for alias in node.names)  # without "as", it is not public
    assert stub == gainful._MODULE_OF


def test_every_public_name_is_there():
    import gainful

    for name in gainful.__all__:
        assert getattr(gainful, name) is not None
    assert set(gainful.__all__) <= set(dir(gainful))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = gainful.nonsense
