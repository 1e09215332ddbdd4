"""The fuzzer: its cases are those of their numbers, and no way to fail escapes it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource")  # the fuzzer limits the memory of its workers

from faults import FAULTS

from fuzz.cases import Case, Input, find_target
from fuzz.commands import Tally, shrink
from fuzz.outcomes import Outcome
from fuzz.pool import Result, open_pool, run_one
from fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
FAULTY = "faults:FAULTY"


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.prepare is None])
def test_a_case_depends_on_its_seed_and_number_alone(name):
    target = find_target(name)
    first = [Case.make(name, target, 3, number, {}) for number in range(8)]
    again = [Case.make(name, target, 3, number, {}) for number in reversed(range(8))][::-1]
    assert first == again
    assert first != [Case.make(name, target, 4, number, {}) for number in range(8)]
    assert [Case.from_bytes(case.to_bytes(outcome="x")) for case in first] == first


@pytest.fixture(scope="module")
def pool():
    with open_pool(1) as pool:
        yield pool


@pytest.mark.parametrize("kind", FAULTS)
def test_every_way_to_fail_is_noticed(pool, kind):
    case = Case(FAULTY, 0, 0, Input(b"", ".bin", {"kind": kind}))
    assert run_one(pool, case).outcome.kind == kind


def test_a_refusal_of_what_is_whole_is_wrong(pool):
    outcome = run_one(pool, Case(FAULTY, 0, 0, Input(b"", "", {"kind": "refused"}), whole=True)).outcome
    assert (outcome.kind, outcome.detail) == ("wrong", "one line")


@pytest.mark.parametrize("name", ["SPINNING", "WAITING"])
def test_cases_that_do_not_end_are_ended(name):
    with open_pool(1, patience=1.0) as pool:
        assert run_one(pool, Case(f"faults:{name}", 0, 0, Input(b""))).outcome.kind == "timeout"


def test_cases_after_a_crash_still_run(pool):
    """One batch with crashes among its cases: every case has its own outcome, and the failed ones come with it."""
    batches = [(FAULTY, 5, list(range(30)))]
    results = {one.number: one for one in pool.run(lambda: batches.pop() if batches else None)}
    wanted = {number: Case.make(FAULTY, find_target(FAULTY), 5, number, {}) for number in range(30)}
    kinds = {number: case.input.options["kind"] for number, case in wanted.items()}
    assert "signal" in kinds.values()
    for number, result in results.items():
        if not (wanted[number].whole and kinds[number] == "refused"):
            assert result.outcome.kind == kinds[number]
        assert result.case == (wanted[number] if result.outcome.fails else None)
    assert len(results) == 30


def test_cutting_keeps_what_the_failure_needs():
    assert shrink(b"some text with a # and more\n" * 50, lambda raw: b"#" in raw) == b"#"


def test_a_run_prints_a_table(tmp_path):
    """Some damaged files of a format that has long been fuzzed."""
    command = [sys.executable, "-m", "fuzz", "run", "--cases", "60", "--formats", "letor", "--seed", "1"]
    done = subprocess.run([*command, "--jobs", "1", "--found", tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^letor +60 +[1-9]\d* +[1-9]\d* +0 ", done.stdout, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_failures_are_counted_by_cause_and_a_few_are_kept(tmp_path):
    tally = Tally(["letor"], tmp_path)
    for number in range(5):
        case = Case("letor", 0, number, Input(b"1 qid:1 1:1\n", ".txt"))
        tally.add(Result("letor", number, Outcome("exception", "KeyError in x:y", str(number)), 0.0, case))
    tally.add(Result("letor", 5, Outcome("refused"), 0.0))
    assert re.search(r"^letor +6 +1 +0 +5 +5 ", tally.table(), re.MULTILINE)
    assert next(tally.describe_causes()) == "letor: 5 × exception: KeyError in x:y"
    kept = sorted(tmp_path.iterdir())
    assert [Case.from_bytes(path.read_bytes()).number for path in kept] == [0, 1]
