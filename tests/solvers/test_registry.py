"""A loss gets a solver that can minimise it, and the error for another one names those that can."""

from __future__ import annotations

import re

import pytest

from gainful import LOSSES, ParameterError, loss
from gainful.solvers.registry import AUTOMATIC, SOLVERS, choose_solver


def meets(name, solver):
    """The needs, written out."""
    entry = LOSSES[name]
    return {
        "lbfgs": entry.smooth and not entry.staged,
        "bundle": entry.convex and not entry.staged,
        "gradient": True,
    }[solver]


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_gets_a_solver(name):
    assert choose_solver("Mine", loss(name), "auto") == next(solver for solver in AUTOMATIC if meets(name, solver))


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("solver", AUTOMATIC)
@pytest.mark.parametrize("name", LOSSES)
def test_the_error_names_every_solver_that_would_do(name, solver, early_stopping):
    if meets(name, solver) and not (early_stopping and solver == "bundle"):
        assert choose_solver("Mine", loss(name), solver, early_stopping=early_stopping) == solver
        return
    with pytest.raises(ParameterError, match=rf"^Mine: .*{solver}") as caught:
        choose_solver("Mine", loss(name), solver, early_stopping=early_stopping)
    named = re.findall(r"'([a-z_]+)'", re.search(r"(?:use|needs) solver=([^;]*)", str(caught.value))[1])
    able = [one for one in AUTOMATIC if meets(name, one) and not (early_stopping and one == "bundle")]
    assert named == able


def test_an_estimated_loss_is_not_certified():
    """A local search estimates the slack bound from below, so a certificate against its planes would be wrong."""
    slack = loss("structured-ndcg-slack")
    assert not slack.convex
    assert choose_solver("Mine", slack, "auto") == "gradient"


def test_solvers_that_visit_queries_say_so():
    assert {name for name, solver in SOLVERS.items() if solver.by_query} == {"cutting_plane", "stochastic"}
