"""Every ranker refuses hostile numbers in one line, or gives finite scores. ``make hostile`` runs all cases."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import gainful

pytest.importorskip("resource")  # the script limits its memory
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hostile.py"
SPEC = importlib.util.spec_from_file_location("hostile", SCRIPT)
hostile = importlib.util.module_from_spec(SPEC)
sys.modules["hostile"] = hostile  # its dataclasses look for their module
SPEC.loader.exec_module(hostile)

# Each of these once failed for some ranker: a crash, a foreign error or warning, NaN, or a silent fit of nonsense.
CASES = (
    *("one-value-max", "unscaled-x1e-155", "big-endian-f8", "python-ints-10^400", "masked", "predict-masked"),
    *("sparse-column-out-of-range", "grades-masked", "grades-x1e-310", "grades-to-1e+300", "weights-1e300"),
    *("weights-one-1e308", "weights-subnormal", "weights-only-one-query", "file-inf", "file-scored-inf"),
    *("predict-no-rows", "predict-x1e307"),
)


@pytest.mark.parametrize("name", list(gainful.RANKERS))
def test_hostile_numbers_are_refused_or_scored(name):
    found = {case: hostile.outcome_of(name, case) for case in CASES}
    assert {case: outcome for case, outcome in found.items() if outcome not in ("refused", "scored")} == {}


@pytest.mark.parametrize("case", hostile.cases_of("compare"))
def test_comparisons_refuse_or_measure(case):
    assert hostile.outcome_of("compare", case) in ("refused", "scored")


def test_metrics_refuse_or_measure():
    found = {case: hostile.outcome_of("metrics", case) for case in hostile.cases_of("metrics")}
    assert {case: outcome for case, outcome in found.items() if outcome not in ("refused", "scored")} == {}


def test_the_harness_tells_failures():
    assert hostile.judge("refuse", lambda: None) == "trained, should have been refused"
    assert hostile.judge("either", lambda: 1 / 0).startswith("ZeroDivisionError")
    assert hostile.judge("either", lambda: "scores are not finite") == "scores are not finite"
    assert hostile.judge("either", lambda: hostile.np.log(0.0) and None).startswith("RuntimeWarning")
    assert len(hostile.CASES) >= 100
