"""``scale``: features in units of their standard deviations, in every ranker that is linear in them or has a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful import RankingData
from gainful.cli import run
from gainful.linear.risk import LinearRisk
from gainful.linear.scaling import ScaledRisk
from gainful.losses import loss
from gainful.solvers.certificate import Certificate

UNITS = np.array([1.0, 100.0, 1e-3, 30.0, 0.5])
# Every solver, and every ranker that scales: (name, parameters).
WAYS = {
    "regression": ("regression", {}),
    "gain": ("regression", {"target": "gain", "alpha": 3.0}),
    "lbfgs": ("ranknet", {"tol": 1e-10}),
    "bundle": ("ranksvm", {"tol": 1e-6}),
    "gradient": ("lambdarank", {"max_iter": 30}),
    "gradient from regression": ("lambdarank", {"max_iter": 30, "init": "regression"}),
    "staged": ("linear", {"loss": "reg-shf-sdcg", "max_iter": 20}),
    "convex": ("structured-svm", {"tol": 1e-6}),
    "cutting planes": ("structured-svm", {"solver": "cutting_plane", "tol": 1e-8}),
    "subgradient": ("structured-svm", {"solver": "subgradient", "max_iter": 20}),
    "tight": ("structured-svm-tight", {}),
    "cccp": ("structured-svm-tight", {"tight_method": "cccp"}),
    "slack": ("structured-svm-slack", {"tol": 1e-6}),
    "average precision": ("svmmap", {"tol": 1e-6}),
    "learned": ("structured-svm", {"position_weights": "learn", "metric": "ndcg@3", "tol": 1e-6}),
    "kernel": ("structured-svm-kernel", {"n_landmarks": 20}),
    "polynomial": ("structured-svm-kernel", {"kernel": "polynomial", "n_landmarks": 20}),
    "average": ("rankmm-1", {"tol": 1e-6}),
    "average, stochastic": ("rankmm-1", {"solver": "stochastic"}),
    "maximum, stochastic": ("rankmm-2", {"solver": "stochastic"}),
    "max-average": ("rankmm-3", {"tol": 1e-6}),
    "adarank": ("adarank-ndcg", {}),
    "coordinate ascent": ("coordinate-ascent", {"n_restarts": 2}),
    "rsrank": ("rsrank", {}),
    "sparse": ("rsrank", {"l1": 0.05}),
    "reduction": ("ndcg-reduction", {}),
}


@pytest.fixture(scope="module")
def data():
    """30 queries with features in different units, one of them constant."""
    made = gainful.make_artificial(30, n_docs=9, n_features=5, seed=8)
    return made.replace(X=np.column_stack([made.X * UNITS + [0.0, 50.0, 0.0, -7.0, 0.0], np.full(made.n_rows, 4.0)]))


def by_hand(data, centre=False):
    """The same with features standardised by hand, the constant one left out."""
    return data.replace(X=(data.X - centre * data.X.mean(axis=0)) / [*data.X.std(axis=0)[:5], np.inf])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", WAYS)
def test_it_is_training_on_features_standardised_by_hand(data, way):
    name, params = WAYS[way]
    hand = by_hand(data, centre=gainful.RANKERS[name].kind == "kernel")
    inside = gainful.ranker(name, **params).fit(data)
    outside = gainful.ranker(name, scale=None, **params).fit(hand)
    away = inside.predict(data) - outside.predict(hand)
    assert np.abs(away).max() <= 5e-3 * np.ptp(outside.predict(hand))
    if hasattr(inside, "coef_"):
        assert inside.coef_[5] == 0.0  # constant
        back = inside.coef_[:5] * data.X.std(axis=0)[:5]
        assert np.abs(back - outside.coef_[:5]).max() <= 5e-3 * np.abs(outside.coef_[:5]).max()
        np.testing.assert_allclose(inside.contributions(data).sum(axis=1), inside.predict(data), rtol=1e-9)
    if hasattr(inside, "certificate_"):
        assert inside.certificate_.primal == pytest.approx(outside.certificate_.primal, rel=1e-4)
        assert inside.certificate_.dual <= outside.certificate_.primal * (1 + 1e-9)
        assert (inside.certificate_.scale, outside.certificate_.scale) == ("standard", None)


@pytest.mark.filterwarnings("ignore::UserWarning")
# polynomial: centred only where dense; cccp: ties, which rounding decides, choose its path
@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("polynomial", "cccp")])
def test_sparse_features_give_what_dense_ones_give(data, way):
    name, params = WAYS[way]
    thin = RankingData.from_rows(sparse.csr_array(data.X), data.y, data.qid)
    dense, found = gainful.ranker(name, **params).fit(data), gainful.ranker(name, **params).fit(thin)
    expected = dense.predict(data)
    np.testing.assert_allclose(found.predict(thin), expected, atol=1e-3 * np.ptp(expected))


@pytest.mark.parametrize("scale", ["standard", None])
def test_the_scaled_risk_is_the_risk_of_scaled_features(data, scale, rng):
    scales = np.ones(6) if scale is None else np.array([*data.X.std(axis=0)[:5], np.inf])
    risk = ScaledRisk(LinearRisk.of(loss("ranknet"), data), scales)
    plain = LinearRisk.of(loss("ranknet"), data.replace(X=data.X / scales))
    v = rng.normal(size=6) * 0.1
    for one, other in zip(risk.value_and_gradient(v), plain.value_and_gradient(v), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert risk.unscale(v).tolist() == (v / scales).tolist()


@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_queries_of_weight_0_do_not_count(data):
    """Their features, wild as they are, change neither scales nor weights."""
    wild = data[:10].replace(X=data[:10].X * 1e6)
    X = np.vstack([data.X, wild.X])
    qid = np.concatenate([data.qid, wild.qid + 1000])
    weights = np.repeat([1.0, 0.0], [data.n_rows, wild.n_rows])
    for name in ("regression", "ranknet", "structured-svm-tight", "rankmm-1"):
        found = gainful.ranker(name).fit(X, np.concatenate([data.y, wild.y]), qid=qid, sample_weight=weights)
        np.testing.assert_allclose(found.coef_, gainful.ranker(name).fit(data).coef_, rtol=1e-3, atol=1e-9)


NAMES = [name for name, entry in gainful.RANKERS.items() if entry.kind in ("linear", "kernel")]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("factor", "offset"), [(1e150, 0.0), (1e-150, 0.0), (1.0, 1e9), (1e-3, 1e9), (5e-324, 0.0)], ids=str
)
def test_extreme_features_give_finite_weights(name, factor, offset):
    made = gainful.make_artificial(8, n_docs=6, n_features=3, seed=2)
    X = np.array(made.X, dtype=np.float64)
    X[:, 1] = X[:, 1] * factor + offset
    model = gainful.ranker(name).fit(X, made.y, qid=made.qid)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_certificates_say_of_which_problem_they_are(data, tmp_path):
    for scale, words in (("standard", "on standardised features"), (None, "on the features as given")):
        model = gainful.StructuredSVM(scale=scale).fit(data)
        assert words in str(model.certificate_)
        assert f"scale={scale!r}" in repr(model.certificate_)
        model.scale = "standard"  # a certificate is of the fit, not of what comes after
        gainful.save(model, tmp_path / "m")
        assert gainful.load(tmp_path / "m").certificate_ == model.certificate_
        assert gainful.load(tmp_path / "m").certificate_.scale == scale
    assert Certificate(2.0, 1.0).scale is None


@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_the_objective_on_standardised_features(data):
    model = gainful.RankSVM(C=2.0).fit(data)
    v, Z = model.coef_[:5] * data.X.std(axis=0)[:5], by_hand(data).X[:, :5]
    short = [
        max(0.0, 1.0 - float(v @ (Z[i] - Z[j])))
        for lo, hi in zip(data.offsets, data.offsets[1:], strict=False)
        for i in range(lo, hi)
        for j in range(lo, hi)
        if data.y[i] > data.y[j]
    ]
    assert model.certificate_.primal == pytest.approx(0.5 * v @ v + 2.0 * np.mean(short), rel=1e-9)


def test_the_command_line_takes_none(data, tmp_path):
    gainful.write(data, tmp_path / "d.txt")
    model = tmp_path / "m.gainful"
    for text, scale in (("none", None), ("None", None), ("standard", "standard")):
        assert run(["train", "ranknet", str(tmp_path / "d.txt"), "-o", str(model), "--set", f"scale={text}"]) == 0
        assert gainful.load(model).scale == scale
    assert run(["train", "ranknet", str(tmp_path / "d.txt"), "-o", str(model), "--set", "scale=unit"]) != 0


def test_other_scales_are_refused():
    with pytest.raises(gainful.ParameterError, match=r"^scale of RankSVM must be 'standard', or None, was 'unit'"):
        gainful.RankSVM(scale="unit").fit([[1.0], [2.0]], [0, 1], qid=[1, 1])
