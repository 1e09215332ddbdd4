"""Warnings of the fits that a search keeps reach the user, those of the others do not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gainful
from gainful import Blend, DataWarning, Range


class Grumbling(gainful.RegressionRanker):
    """Warns of its own penalty."""

    def _fit(self, data, monitor):
        warnings.warn(f"alpha is {self.alpha:.6g}", DataWarning, stacklevel=2)
        super()._fit(data, monitor)


def _texts(caught):
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("given", ["valid", "folds"])
def test_tune_shows_the_warnings_of_the_best_trial_alone(parts, n_jobs, given, tmp_path):
    how = {"valid": {"valid": parts[1]}, "folds": {"folds": 3}}[given]
    settings = {"space": {"alpha": Range(0.1, 1e6, log=True)}, "trials": 3, "refit": False, "store": tmp_path}
    for _ in range(2):  # the second time from the store
        with pytest.warns(DataWarning) as caught:
            found = gainful.tune(Grumbling(alpha=0.5), parts[0], n_jobs=n_jobs, **settings, **how)
        assert [text.rpartition(": ")[2] for text in _texts(caught)] == [f"alpha is {found.best_params['alpha']:.6g}"]


def test_the_final_training_repeats_its_own(parts):
    with pytest.warns(DataWarning) as caught:
        found = gainful.tune(Grumbling(), parts[0], valid=parts[1], trials=2, space={"alpha": Range(0.1, 9.0)})
    assert _texts(caught) == [f"alpha is {found.best_params['alpha']:.6g}"]
    with pytest.warns(DataWarning, match="alpha is"):
        gainful.compare({"a": Grumbling(), "b": gainful.RegressionRanker()}, gainful.Split(*parts), tune=2)


def test_blends_show_those_of_the_members_that_count(parts):
    members = [Grumbling(alpha=0.7), Grumbling(alpha=2.0), "regression"]
    with pytest.warns(DataWarning) as caught:
        model = Blend(members, folds=3, weights=[1, 0, 1], n_jobs=2).fit(parts[0])
    assert _texts(caught) == ["member Grumbling: alpha is 0.7"]
    assert np.isfinite(model.predict(parts[2])).all()
