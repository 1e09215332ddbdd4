"""Several validation sets by name: the first decides, all are in the history."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful.errors import DataError, ParameterError
from gainful.metrics import metric

TRAIN = gainful.make_artificial(40, n_docs=10, n_features=5, seed=1)
VALID = gainful.make_artificial(15, n_docs=10, n_features=5, seed=2)
OTHER = gainful.make_artificial(25, n_docs=10, n_features=5, seed=3)
RANKERS = {
    "lambdamart": {"n_trees": 12, "n_leaves": 4, "early_stopping": 4},
    "ranknet": {},
    "rankmm-1": {},
    "coordinate-ascent": {"n_restarts": 1, "n_sweeps": 3},
    "adarank-ndcg": {"n_rounds": 10},
    "rankboost": {"n_rounds": 10},
    "frank": {"n_rounds": 10},
    "mcrank": {"n_trees": 5},
    "rsrank": {},
    "ndcg-reduction": {},
    "structured-svm": {},
    "regression": {},
}


@pytest.mark.parametrize("name", RANKERS)
def test_the_first_decides_and_all_are_watched(name):
    alone = gainful.ranker(name, **RANKERS[name]).fit(TRAIN, eval_set=VALID)
    both = gainful.ranker(name, **RANKERS[name]).fit(TRAIN, eval_set={"valid": VALID, "other": OTHER, "train": TRAIN})
    np.testing.assert_allclose(both.predict(OTHER), alone.predict(OTHER), rtol=1e-9, atol=1e-12)
    assert [row["validation"] for row in both.history_] == pytest.approx([row["validation"] for row in alone.history_])
    scored = [row for row in both.history_ if row["validation"] is not None]
    assert [row["validation valid"] for row in scored] == pytest.approx([row["validation"] for row in scored])
    m = metric("ndcg@10")
    best = max(scored, key=lambda row: row["validation"])
    assert best["validation valid"] == pytest.approx(m(both.predict(VALID), VALID))
    assert best["validation other"] == pytest.approx(m(both.predict(OTHER), OTHER))
    assert best["validation train"] == pytest.approx(m(both.predict(TRAIN), TRAIN))
    assert both.training_["validation"]["queries"] == VALID.n_queries


def test_weights_of_each_set_count():
    weighted = gainful.RankingData.from_rows(
        OTHER.X, OTHER.y, OTHER.qid, sample_weight=np.repeat(np.arange(1.0, 26.0), 10)
    )
    model = gainful.LambdaMART(n_trees=3).fit(TRAIN, eval_set={"a": VALID, "b": weighted})
    last = gainful.LambdaMART(n_trees=3, early_stopping=None).fit(TRAIN)
    expected = metric("ndcg@10")(last.predict(OTHER), weighted)
    assert model.history_[-1]["validation b"] == pytest.approx(expected)


def test_a_model_file_and_a_table_keep_them(tmp_path):
    model = gainful.LambdaMART(n_trees=3).fit(TRAIN, eval_set={"a": (VALID.X, VALID.y, VALID.qid), "b": OTHER})
    gainful.save(model, tmp_path / "m.gainful")
    assert gainful.load(tmp_path / "m.gainful").history_[0]["validation b"] == model.history_[0]["validation b"]


def test_mistakes_are_told(tmp_path):
    with pytest.raises(DataError, match="eval_set 'b' has 3 features, the training data has 5"):
        gainful.LambdaMART().fit(TRAIN, eval_set={"a": VALID, "b": gainful.make_artificial(5, n_features=3)})
    with pytest.raises(ParameterError, match="eval_set of fit must be a mapping from names to data, at least one"):
        gainful.LambdaMART().fit(TRAIN, eval_set={})
    with pytest.raises(ParameterError, match="a checkpoint holds one eval_set"):
        gainful.LambdaMART().fit(TRAIN, eval_set={"a": VALID, "b": OTHER}, checkpoint=tmp_path / "c")
    with pytest.raises(ParameterError, match="Blend trains on the queries of its eval_set, so it takes only one"):
        gainful.Blend(["regression"]).fit(TRAIN, eval_set={"a": VALID, "b": OTHER})
