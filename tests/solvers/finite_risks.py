"""Risks small enough to be written out: a finite list of columns for each query, and RankSVM's hinge over pairs."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


class FiniteRisk:
    """R(w) = Σ_q ω_q max_y (b_qy − w·v_qy), V (m, k, d), b (m, k); the first column of each query is zero.

    A *row* is a column, its score w·v. ``passes`` and ``alongs`` count what a solver asks for.
    """

    def __init__(self, V, b, omega=None):
        self.V, self.b = np.array(V, dtype=float), np.array(b, dtype=float)
        self.V[:, 0], self.b[:, 0] = 0.0, 0.0
        self.n_queries, self.k, self.n_features = self.V.shape
        self.omega = np.full(self.n_queries, 1 / self.n_queries) if omega is None else np.asarray(omega, dtype=float)
        self.passes, self.alongs = 0.0, 0

    @property
    def weights(self):
        return self.omega

    def _worst(self, scores):
        slack = self.b - scores.reshape(self.b.shape)
        top = slack.argmax(axis=1)
        return top, float(self.omega @ np.take_along_axis(slack, top[:, None], 1)[:, 0])

    def value(self, w):
        return self._worst(self.V @ w)[1]

    def objective(self, w, C):
        return 0.5 * w @ w + C * self.value(w)

    def value_and_gradient(self, w):
        assert np.isfinite(w).all()
        self.passes += 1
        scores = (self.V @ w).ravel()
        top, value = self._worst(scores)
        return value, -(self.omega @ self.V[np.arange(self.n_queries), top]), scores

    def along(self, scores, direction, t):
        assert np.isfinite(t)
        self.alongs += 1
        top, value = self._worst(scores + t * direction)
        return value, -float(self.omega @ direction.reshape(self.b.shape)[np.arange(self.n_queries), top])

    def columns(self, w, queries):
        assert np.isfinite(w).all()
        self.passes += len(queries) / self.n_queries
        top = (self.b[queries] - self.V[queries] @ w).argmax(axis=1)
        return self.V[queries, top], self.b[queries, top]

    def minimum(self, C):
        """The minimum from a general solver, on the epigraph form in (w, ξ)."""
        d, m = self.n_features, self.n_queries
        blocks = [np.hstack([self.V[q], np.eye(m)[[q] * self.k]]) for q in range(m)]
        A, rhs = np.vstack(blocks), self.b.ravel()
        cost = C * self.omega
        result = minimize(
            lambda x: 0.5 * x[:d] @ x[:d] + cost @ x[d:],
            np.concatenate([np.zeros(d), self.b.max(axis=1)]),
            jac=lambda x: np.concatenate([x[:d], cost]),
            constraints={"type": "ineq", "fun": lambda x: A @ x - rhs, "jac": lambda x: A},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        return self.objective(result.x[:d], C)


class PairRisk:
    """RankSVM: the mean over pairs of [1 − (s_i − s_j)]_+."""

    def __init__(self, X, pairs):
        self.X, (self.i, self.j) = X, np.asarray(pairs).T
        self.n_features = X.shape[1]
        self.passes, self.alongs = 0, 0

    def value_and_gradient(self, w):
        self.passes += 1
        scores = self.X @ w
        slack = 1 - (scores[self.i] - scores[self.j])
        on, n = slack > 0, len(scores)
        counts = np.bincount(self.j[on], minlength=n) - np.bincount(self.i[on], minlength=n)
        return float(slack[on].sum()) / len(slack), counts @ self.X / len(slack), scores

    def along(self, scores, direction, t):
        self.alongs += 1
        at = scores + t * direction
        slack = 1 - (at[self.i] - at[self.j])
        on = slack > 0
        return float(slack[on].sum()) / len(slack), -float((direction[self.i] - direction[self.j])[on].sum()) / len(
            slack
        )


def random_risk(rng, m=4, k=4, d=3, scale=1.0, shift=0.3):
    """Columns that on average can be satisfied, but not all together."""
    return FiniteRisk(scale * (rng.normal(size=(m, k, d)) + shift), rng.random((m, k)))


def ranking_risk(m=200, k=50, d=40, n=20, seed=0):
    """A structured SVM for NDCG@10 with sampled rankings: half random ones, half one swap from the best."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d) / np.sqrt(d)
    A = 1 / np.sqrt(np.arange(1, n + 1))
    D = np.where(np.arange(n) < 10, 1 / np.log2(np.arange(2, n + 2)), 0.0)
    V, b = np.zeros((m, k, d)), np.zeros((m, k))
    for q in range(m):
        X = rng.normal(size=(n, d))
        grades = np.argsort(np.argsort(X @ truth + rng.normal(size=n))) // 4
        best = np.argsort(-grades, kind="stable")
        gains = 2.0**grades - 1
        for y in range(1, k):
            order = rng.permutation(n)
            if y > k // 2:
                first, second = order[:2]
                order = best.copy()
                order[[first, second]] = order[[second, first]]
            V[q, y] = A @ X[best] - A @ X[order]
            b[q, y] = 1 - gains[order] @ D / (gains[best] @ D)
    return FiniteRisk(V, b)
