"""Shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # One worker per core already: OpenMP threads that wait for each other's cores would only spin.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import gainful

# This machine may be busy: a test is judged by what it computes, never by how long that took.
settings.register_profile("gainful", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gainful")

OHSUMED = Path(os.environ.get("GAINFUL_OHSUMED", Path(__file__).parents[2] / "shared" / "data" / "ohsumed"))


@pytest.fixture(scope="session")
def ohsumed() -> Path:
    """The folder of LETOR 3.0's OHSUMED, which is not ours to pass on."""
    if not (OHSUMED / "Fold1" / "train.txt").is_file():
        pytest.skip(f"OHSUMED is not at {OHSUMED}; set GAINFUL_OHSUMED to its folder")
    return OHSUMED


@pytest.fixture(scope="session")
def artificial() -> gainful.RankingData:
    """120 queries of 20 documents, 12 features."""
    return gainful.make_artificial(120, n_docs=20, n_features=12, seed=3)


@pytest.fixture(scope="session")
def parts(artificial: gainful.RankingData) -> tuple[gainful.RankingData, ...]:
    """Train, validation and test part of the artificial data."""
    return gainful.split(artificial, (0.6, 0.2, 0.2), seed=1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
