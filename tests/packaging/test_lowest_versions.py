"""The lowest versions come from pyproject.toml alone, and every requirement has one."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from lowest_versions import declared_by, lowest_versions, pinned

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize(
    ("declared", "lowest"),
    [
        ("numpy>=2.0", "numpy==2.0"),
        ("lightgbm>=4.5,<4.8", "lightgbm==4.5"),
        ("lightgbm<4.8,>=4.5", "lightgbm==4.5"),
        ("dask[dataframe]>=2024.8", "dask[dataframe]==2024.8"),
        ("scikit-learn >= 1.6 ; python_version > '3'", "scikit-learn==1.6"),
    ],
)
def test_a_bound_becomes_a_version(declared, lowest):
    assert pinned(declared) == lowest


def test_a_requirement_without_a_lower_bound_is_refused():
    with pytest.raises(SystemExit, match="'numpy<3' has no lower bound"):
        pinned("numpy<3")


def test_every_requirement_of_the_package_has_a_lower_bound():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    found = lowest_versions(PYPROJECT, list(extras))
    assert {"numpy", "lightgbm", "pyarrow", "fastapi", "onnx", "torch", "pytest"} <= {
        one.split("==")[0] for one in found
    }


def test_development_asks_for_what_the_extras_ask_for():
    """Else an extra could be tested with versions that it does not allow, or the reverse."""
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    used = [one for name in ("neural", "dask", "serve", "export", "tune", "docs") for one in extras[name]]
    assert set(used) <= set(declared_by(extras, ["dev"]))
    assert {one for one in used if not one.startswith("torch")} <= set(declared_by(extras, ["tools"]))
