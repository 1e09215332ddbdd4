"""The NDCG reduction: any linear classifier that takes sample weights becomes a ranker."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgWarning

from gainful.compute.estimators import clone
from gainful.compute.features import Features
from gainful.compute.randomness import seed_from
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, row_chunks
from gainful.data.size import DataSize
from gainful.errors import ParameterError
from gainful.linear.scaling import SCALE, Scaling
from gainful.linear.weighted_pairs import WeightedPairs, row_scores
from gainful.parameters.constraints import Choice, Constraint, Integer, Maybe, MetricSpec, Seed, parameter
from gainful.parameters.space import IntRange, Space
from gainful.rankers.base import LinearScores, Ranker
from gainful.solvers.ridge import ridge_bytes
from gainful.training.monitor import Monitor

PROBE = 32  # pairs for the first check that a classifier is linear
MOST_FEATURES_FOR_NEWTON = 1000


@dataclass(frozen=True)
class WeightedClassifier(Constraint):
    """A scikit-learn classifier whose ``fit`` takes ``sample_weight``."""

    def accepts(self, value: Any) -> bool:
        fit = getattr(value, "fit", None)
        if fit is None or inspect.isclass(value) or not hasattr(value, "get_params"):
            return False
        return "sample_weight" in inspect.signature(fit).parameters

    def expected(self) -> str:
        return "a scikit-learn classifier whose fit takes sample_weight"

    def parse(self, text: str) -> Any:
        raise ValueError(text)


@dataclass(repr=False, eq=False)
class NDCGReduction(LinearScores, Ranker):
    """Ranking by classification of pairs, each weighted by the change in NDCG from swapping it.

    Repeats NDCG-Train of Sun, Qin, Tao and Wang 2009: rank by the current scores; weight every pair with g_i > g_j by
    w_ij = |(2^{g_i} − 2^{g_j})(D(π_i) − D(π_j))| / N_q; fit the classifier on x_i − x_j with these sample weights; its
    coefficients give the next scores. The first ranks are those of ridge regression on the grades.

    The paper ranks a document by the number of documents of its query that beat it. With a linear classifier this is
    the order of w·x, which scores each row on its own. Other classifiers have no such score and are rejected: after
    ``fit`` the classifier must have ``coef_`` with one weight per feature, which is checked on a few pairs before
    training. An intercept is dropped: every second pair is presented as x_j − x_i, so it has nothing to learn.

    Parameters
    ----------
    classifier : scikit-learn classifier, linear, with ``sample_weight``; None for logistic regression
    scale : "standard": divide features by their standard deviations over the training rows, so that their units do not
        matter; ``coef_`` are the weights of the original features. None: use the original features
    n_rounds : number of rankings to take pair weights from
    pairs : "sampled": if there are more than ``max_pairs``, each round draws that many in proportion to their weights;
        "all": use every pair
    max_pairs : maximum rows passed to the classifier, each of n_features float64; this bounds the memory
    eval_metric : metric on ``eval_set``; the best round there is kept
    random_state : seed for the draws

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    classifier_ : the fitted classifier of the round kept; not in model files, which store its coefficients
    """

    space: ClassVar[Space] = {
        "max_pairs": IntRange(5_000, 200_000, log=True, why="more pairs make the draw less noisy"),
    }

    classifier: Any = parameter(
        None, Maybe(inner=WeightedClassifier(), help="linear scikit-learn classifier; None for logistic regression")
    )
    scale: str | None = parameter("standard", SCALE)
    n_rounds: int = parameter(5, Integer(low=1, help="number of rankings to take pair weights from"))
    pairs: str = parameter(
        "sampled", Choice(of=("sampled", "all"), help="draw pairs if there are too many, or use all")
    )
    max_pairs: int = parameter(50_000, Integer(low=2, help="maximum number of pairs when sampled"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on the validation data"))
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed"))

    row_bytes: ClassVar[float] = 24

    def _training_bytes(self, size: DataSize) -> float:
        pairs = min(self.max_pairs, size.rows * size.rows / size.queries)
        classifier = 2.5 * 8.0 * pairs * size.features  # the rows, and what the classifier makes of them
        return super()._training_bytes(size) + max(ridge_bytes(size.features), classifier)

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        monitor.total = self.n_rounds
        engine, features = WeightedPairs(data), Features(data.X)
        rng = np.random.default_rng(seed_from(self.random_state))
        scaling = Scaling(data, self.scale)
        scales = scaling.scales
        engine.arrange(data, scales)
        w = scaling.start() / scales
        self.__dict__.pop("classifier_", None)  # of an earlier fit
        with monitor:  # Ctrl-C keeps the best round so far
            for n in range(self.n_rounds):
                D = engine.rank_discounts(row_scores(features, w))
                chosen = engine.pairs(D) if self.pairs == "all" else self._draw(engine, D, rng)
                if n == 0 and self.classifier is not None:
                    self._probe(data.X, scales, *chosen)
                fitted, w = self._classify(data.X, scales, *chosen)
                objective = float(engine.shares @ engine.inverted_weights(row_scores(features, w)))
                scored = None if monitor.valid is None else monitor.evaluate(row_scores(Features(monitor.valid.X), w))
                if monitor.is_best(scored) or not monitor.history:
                    self.coef_, self.intercept_, self.classifier_ = w, 0.0, fitted
                if monitor.step(objective=objective, validation=scored, n_pairs=len(chosen[0])):
                    break

    def _draw(self, engine: WeightedPairs, D: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        return engine.pairs(D) if engine.n_pairs <= self.max_pairs else engine.draw(D, self.max_pairs, rng)

    def _probe(self, X: Any, scales: Array, better: Array, worse: Array, weight: Array) -> None:
        """Reject a nonlinear classifier before training; one that cannot fit a few pairs is not judged here."""
        few = np.linspace(0, len(better) - 1, min(PROBE, len(better))).astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self._classify(X, scales, better[few], worse[few], weight[few])
            except ParameterError:
                raise
            except Exception:
                return

    def _classify(self, X: Any, scales: Array, better: Array, worse: Array, weight: Array) -> tuple[Any, Array]:
        """Fit the classifier on these pairs; returns it and its feature weights."""
        if not len(better):
            return None, np.zeros(X.shape[1])  # no query has two grades
        if len(better) == 1:  # both classes must occur
            better, worse, weight = np.repeat(better, 2), np.repeat(worse, 2), np.repeat(weight, 2)
        label = np.where(np.arange(len(better)) % 2 == 0, 1, -1)
        Z = differences(X, better, worse, label)
        Z /= scales
        classifier = default_classifier(X.shape[1]) if self.classifier is None else clone(self.classifier)
        with warnings.catch_warnings():
            # raised where Newton steps fail and scikit-learn goes on with L-BFGS by itself
            warnings.simplefilter("ignore", LinAlgWarning)
            classifier.fit(Z, label, sample_weight=weight * (len(weight) / weight.sum()))
        return classifier, self._coefficients(classifier, X.shape[1]) / scales

    def _coefficients(self, classifier: Any, n_features: int) -> Array:
        coef = getattr(classifier, "coef_", None)
        if coef is None or np.size(coef) != n_features:
            raise ParameterError.of(
                type(self).__name__, "classifier", "linear, with one weight per feature in coef_ after fit", classifier,
                hint="otherwise the rank of a document depends on the others of its query, and a row has no "
                "score of its own",
            )  # fmt: skip
        return np.asarray(coef, dtype=np.float64).reshape(n_features)

    # -- model files ---------------------------------------------------------------------------------------------------

    def _file_params(self) -> dict[str, Any]:
        """Estimators are not stored; the coefficients are."""
        return super()._file_params() | {"classifier": None}

    def _pack(self) -> dict[str, Any]:
        return super()._pack() | {"classifier": " ".join(repr(self.classifier).split())}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)


def default_classifier(n_features: int) -> Any:
    """Logistic regression; by Newton steps if their (d, d) matrix is small compared with the pairs."""
    from sklearn.linear_model import LogisticRegression  # takes 1 s: listing the rankers must not wait for it

    solver = "newton-cholesky" if n_features <= MOST_FEATURES_FOR_NEWTON else "lbfgs"
    return LogisticRegression(fit_intercept=False, max_iter=1000, solver=solver)


def differences(X: Any, better: Array, worse: Array, label: Array) -> Array:
    """label·(x_better − x_worse), (n_pairs, d) float64, block by block."""
    Z = np.empty((len(better), X.shape[1]))
    for rows in row_chunks(*Z.shape):
        first, second = X[better[rows]], X[worse[rows]]
        if hasattr(first, "toarray"):
            first, second = first.toarray(), second.toarray()
        np.subtract(first, second, out=Z[rows], dtype=np.float64)
        Z[rows] *= label[rows, None]
    return Z
