"""Inputs that once failed. ``python -m fuzz cut`` makes them small; docs/fuzzing.md says how they come here."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("resource")  # the fuzzer limits the memory of its workers

from fuzz.cases import Case
from fuzz.pool import open_pool, run_one

FILES = sorted(Path(__file__).with_name("found").glob("*.case"))


@pytest.fixture(scope="module")
def pool():
    with open_pool(1) as pool:
        yield pool


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_once_failed_is_accepted_or_refused(pool, file):
    outcome = run_one(pool, Case.from_bytes(file.read_bytes())).outcome
    assert not outcome.fails, outcome
