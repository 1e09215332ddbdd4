"""Click models on PyClick's result pages, which are not in the repository: their order is the published one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gainful import CLICK_MODELS, DataWarning, click_model, read_clicks
from gainful.clicks import em

FOLDER = Path(os.environ.get("GAINFUL_CLICKS", Path(__file__).parents[3] / "shared" / "data" / "clicks"))

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"PyClick's pages are not at {FOLDER}; set GAINFUL_CLICKS to their folder"
)


@pytest.fixture(scope="module")
def logs():
    found = []
    for part in ("train", "test"):
        with pytest.warns(DataWarning, match="clicks on documents that were not shown were dropped"):
            found.append(read_clicks(FOLDER / f"serps-{part}.txt.gz"))
    return found


def test_pages_and_clicks(logs):
    assert [(log.n_pages, log.n_rows, log.n_clicks) for log in logs] == [
        (35_064, 350_640, 42_703),
        (21_413, 214_130, 31_243),
    ]


def test_the_order_of_the_models_is_the_published_one(logs):
    train, test = logs
    found = {name: click_model(name).fit(train).evaluate(test).log_likelihood for name in CLICK_MODELS}
    assert found["ubm"] > found["dbn"] > found["pbm"] > found["rank-ctr"] > found["ctr"] > found["cascade"]
    assert -3.243 <= found["ubm"] <= -3.233  # the published one at least; its priors are not learned


def test_likelihood_never_falls(logs, monkeypatch):
    """While the priors stay: each that is learned starts another ascent, of another objective."""
    ascents, maximise = [], em.maximise

    def spy(*args, **rest):
        found = maximise(*args, **rest)
        ascents.append(np.array(found.history))  # a copy: the parts are joined later
        return found

    monkeypatch.setattr(em, "maximise", spy)
    for name, model in CLICK_MODELS.items():
        if model.iterates:
            ascents.clear()
            whole = click_model(name).fit(logs[0]).history_
            assert np.array_equal(np.concatenate(ascents), whole)
            for history in ascents:
                assert (history[1:] >= history[:-1] - 1e-10 * abs(history[0])).all()
