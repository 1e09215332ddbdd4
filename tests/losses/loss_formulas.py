"""The losses as plain formulas over Python loops: slow, and close to how they are written down."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numba
import numpy as np
from structured.definitions import NdcgQuery, PrecisionQuery


def pairs(grades):
    return [(i, j) for i in range(len(grades)) for j in range(len(grades)) if grades[i] > grades[j]]


def mean_over_pairs(s, g, of):
    chosen = pairs(g)
    return math.fsum(of(s[i] - s[j]) for i, j in chosen) / len(chosen) if chosen else 0.0


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def modified_huber(v):
    return -4.0 * v if v < -1.0 else (1.0 - v) ** 2 if v < 1.0 else 0.0


def cross_entropy(target, s):
    log_total = max(s) + math.log(math.fsum(math.exp(x - max(s)) for x in s))
    return math.fsum(p * (log_total - x) for p, x in zip(target, s, strict=True))


def listnet(s, g):
    if len(set(g)) == 1:
        return 0.0
    chances = np.exp(np.asarray(g, dtype=float) - max(g))
    return cross_entropy(chances / chances.sum(), s)


def xendcg(s, g, gamma=0.5):
    if len(set(g)) == 1:
        return 0.0
    shares = 2.0 ** np.asarray(g, dtype=float) - gamma
    return cross_entropy(shares / shares.sum(), s)


def listmle(s, g):
    total = 0.0
    for i in range(len(s)):
        below = [s[j] for j in range(len(s)) if g[j] < g[i]]
        if below:
            every = np.array([s[i], *below])
            total += every.max() + math.log(math.fsum(np.exp(every - every.max()))) - s[i]
    return total


def softmax_cross_entropy(s, g):
    return 0.0 if len(set(g)) == 1 else cross_entropy([float(x) for x in g], s)


def sigmoid_cross_entropy(s, g, top=1.0):
    return math.fsum(softplus(x) - min(y / top, 1.0) * x for x, y in zip(s, g, strict=True)) / len(s)


def ranknet_graded(s, g, sigma=1.0):
    total = math.fsum(g[i] - g[j] for i, j in pairs(g))
    return math.fsum((g[i] - g[j]) * softplus(-sigma * (s[i] - s[j])) for i, j in pairs(g)) / total if total else 0.0


def discount(r):
    return 1.0 / math.log2(1.0 + r)


def ideal(g, k):
    best = sorted(g, reverse=True)
    return math.fsum((2.0**x - 1.0) * discount(r) for r, x in enumerate(best[:k], 1))


def ranks(s, g):
    """Mean rank and mean discount function of each document: lower grades first among equal scores."""
    order = sorted(range(len(s)), key=lambda i: (-s[i], g[i]))
    places = {}
    for r, i in enumerate(order, 1):
        places.setdefault((s[i], g[i]), []).append(r)
    return [places[s[i], g[i]] for i in range(len(s))]


def delta_weights(s, g, k=None):
    """|ΔNDCG@k| of each pair, and the ranks of its documents in all orders of equal ones."""
    k = len(s) if k is None else k
    best, places = ideal(g, k), ranks(s, g)
    D = [np.mean([discount(r) if r <= k else 0.0 for r in own]) for own in places]
    weights = {(i, j): (2.0 ** g[i] - 2.0 ** g[j]) / best * abs(D[i] - D[j]) for i, j in pairs(g)}
    return weights, {(i, j): list(product(places[i], places[j])) for i, j in pairs(g)}


def lambda_weights(s, g, k=None):
    return delta_weights(s, g, k)[0]


def lambdaloss_weights(s, g, mu=10.0):
    weights, both = delta_weights(s, g)
    best = ideal(g, len(g))
    gap = {pair: np.mean([discount(abs(a - b)) - discount(abs(a - b) + 1) for a, b in both[pair]]) for pair in both}
    return {
        (i, j): (w + mu * (2.0 ** g[i] - 2.0 ** g[j]) / best * gap[i, j]) / math.log(2.0)
        for (i, j), w in weights.items()
    }


def weighted(s, weights, of):
    return math.fsum(w * of(s[i] - s[j]) for (i, j), w in weights.items())


def softrank(s, g, k=10, sigma=1.0):
    if len(set(g)) == 1:
        return 0.0
    n = len(s)
    before = lambda i, j: 0.5 * math.erfc((s[j] - s[i]) / (2.0 * sigma))  # noqa: E731
    total = 0.0
    for j in range(n):
        chances = np.zeros(n)
        chances[0] = 1.0
        for i in range(n):
            if i != j:
                p = before(i, j)
                chances = chances * (1.0 - p) + np.concatenate([[0.0], chances[:-1]]) * p
        total += (2.0 ** g[j] - 1.0) * sum(chances[r] * discount(r + 1) for r in range(min(n, k)))
    return 1.0 - total / ideal(g, k)


def structured(name, s, g, k=10):
    """Convex, tight or slack bound of 1 − NDCG@k or 1 − AP, by trying every ranking."""
    g, s = np.asarray(g), np.asarray(s)
    query = PrecisionQuery(g) if "map" in name else NdcgQuery(g, k, np.arange(float(k), 0.0, -1.0))
    if not query.is_active:
        return 0.0
    bound = name.rpartition("-")[2]
    return getattr(query, bound if bound in ("tight", "slack") else "convex")(s)


def margins(s, g):
    """[(g_j − g_k) − (s_j − s_k)]_+ of the documents j better than k, for each k that has any."""
    short = {}
    for j, k in pairs(g):
        short.setdefault(k, []).append(max(0.0, (g[j] - g[k]) - (s[j] - s[k])))
    return list(short.values())


def sigmoid(x):
    """G_1: falling, 1/(1 + exp(x))."""
    return math.exp(-x) / (1.0 + math.exp(-x)) if x > 0.0 else 1.0 / (1.0 + math.exp(x))


def hinge_above(alpha, x):
    """A_α: what a document of lower grade adds to the rank, at x = own score − its score."""
    return sigmoid(alpha * x) if x >= 0.0 else 0.5 - alpha / 4.0 * x


def hinge_below(alpha, x):
    """B_α: what a document of higher grade adds to the rank."""
    return 1.0 + hinge_above(alpha, -x)


def smooth_ranks(s, g, alpha=1.0, hinged=False):
    def step(i, j):
        x = s[i] - s[j]
        if not hinged or g[i] == g[j]:
            return sigmoid(alpha * x)
        return hinge_above(alpha, x) if g[i] > g[j] else hinge_below(alpha, x)

    return [1.0 + math.fsum(step(i, j) for j in range(len(s)) if j != i) for i in range(len(s))]


def moving_cutoff(s, g, k, tied="all"):
    """The largest rank among the k most relevant: lower grades first among equal scores.

    Of those tied with the k-th all count, unless their grade is the lowest, or the best-ranked.
    """
    order = sorted(range(len(s)), key=lambda i: (-s[i], g[i]))
    rank = {i: r for r, i in enumerate(order, 1)}
    relevant = sorted(range(len(s)), key=lambda i: (-g[i], rank[i]))[:k]
    if tied == "all":
        relevant = [i for i in range(len(s)) if g[i] >= g[relevant[-1]] and g[i] > min(g)]
    return max([k, *(rank[i] for i in relevant)])


def smooth_dcg(s, g, k=10, alpha=1.0, beta=1.0, hinged=False, cutoff=None, target="ndcg", tied="all"):
    """(N − S)/N_q, or N − S. Without a cut-off given it is k, or that of the present ranking where hinged."""
    if len(set(g)) == 1:
        return 0.0
    if cutoff is None and k is not None:
        cutoff = moving_cutoff(s, g, k, tied) if hinged else k
    ranks_, inside = smooth_ranks(s, g, alpha, hinged), lambda r: 1.0 if k is None else sigmoid(beta * (r - cutoff))
    total = math.fsum((2.0**x - 1.0) * inside(r) / math.log2(1.0 + r) for x, r in zip(g, ranks_, strict=True))
    return (ideal(g, len(g)) - total) / (ideal(g, k) if target == "ndcg" else 1.0)


def smooth_dcg_bend(s, g, k=10, alpha=1.0, beta=1.0, hinged=False, target="ndcg", tied="all"):
    """α times the sum over the pairs of each document of the sizes of their slopes."""
    n, cutoff = len(s), math.inf
    if k is not None:
        cutoff = moving_cutoff(s, g, k, tied) if hinged else k
    if len(set(g)) == 1:
        return np.zeros(n)
    fall = np.zeros(n)  # minus the slope of the smoothed DCG by each rank
    for i, r in enumerate(smooth_ranks(s, g, alpha, hinged)):
        inside, log = sigmoid(beta * (r - cutoff)), math.log2(1.0 + r)
        bend = beta * inside * (1.0 - inside) / log + inside / ((1.0 + r) * math.log(2.0) * log**2)
        fall[i] = (2.0 ** g[i] - 1.0) / (ideal(g, k) if target == "ndcg" else 1.0) * bend

    def slope(i, j):  # of what j adds to the rank of i
        x = (s[i] - s[j]) * (-1.0 if hinged and g[i] < g[j] else 1.0)
        share = 0.5 if hinged and g[i] != g[j] and x < 0.0 else sigmoid(alpha * x)
        return -alpha * share * (1.0 - share) * (-1.0 if hinged and g[i] < g[j] else 1.0)

    sizes = [[abs(fall[i] * slope(i, j) - fall[j] * slope(j, i)) for j in range(n) if j != i] for i in range(n)]
    return alpha * np.array([math.fsum(own) for own in sizes])


def in_units(of, s, least, at=None):
    """v · of(s/v), v = √(variance + least²) at the scores ``at``."""
    unit = math.hypot(float(np.std(s if at is None else at)), least) or 1.0
    return unit * of(np.asarray(s) / unit)


def frozen_pairs(weights, of):
    return lambda s: weighted(s, weights, of)


def frozen_cutoff(at, g, k=10, tied="all", **settings):
    return lambda s: smooth_dcg(s, g, k, hinged=True, cutoff=moving_cutoff(at, g, k, tied), **settings)


FORMULAS = {
    "pairwise-hinge": lambda s, g: mean_over_pairs(s, g, lambda v: max(0.0, 1.0 - v)),
    "pairwise-squared-hinge": lambda s, g: mean_over_pairs(s, g, lambda v: max(0.0, 1.0 - v) ** 2),
    "ranknet": lambda s, g: mean_over_pairs(s, g, lambda v: softplus(-v)),
    "ranknet(sigma=2.5)": lambda s, g: mean_over_pairs(s, g, lambda v: softplus(-2.5 * v)),
    "margin-average": lambda s, g: float(np.mean([v for own in margins(s, g) for v in own] or [0.0])),
    "margin-maximum": lambda s, g: max([v for own in margins(s, g) for v in own] or [0.0]),
    "margin-max-average": lambda s, g: max([float(np.mean(own)) for own in margins(s, g)] or [0.0]),
    "listnet": listnet,
    "listmle": listmle,
    "xendcg": xendcg,
    "xendcg(gamma=1)": lambda s, g: xendcg(s, g, 1.0),
    "softmax-cross-entropy": softmax_cross_entropy,
    "sigmoid-cross-entropy": sigmoid_cross_entropy,
    "sigmoid-cross-entropy(top=3)": lambda s, g: sigmoid_cross_entropy(s, g, 3.0),
    "ranknet-graded": ranknet_graded,
    "ranknet-graded(sigma=2.5)": lambda s, g: ranknet_graded(s, g, 2.5),
    "softrank": softrank,
    "softrank(k=3, sigma=0.5)": lambda s, g: softrank(s, g, 3, 0.5),
    "softrank(k=None)": lambda s, g: softrank(s, g, len(s)),
    "squared": lambda s, g: float(np.mean((np.asarray(s) - np.asarray(g)) ** 2)),
    "centred-squared": lambda s, g: float(np.var(np.asarray(s) - np.asarray(g))),
    "lambda": lambda s, g: weighted(s, lambda_weights(s, g), lambda v: softplus(-v)),
    "lambda(k=2, sigma=3)": lambda s, g: weighted(s, lambda_weights(s, g, 2), lambda v: softplus(-3.0 * v)),
    "lambdaloss": lambda s, g: weighted(s, lambdaloss_weights(s, g), lambda v: softplus(-v)),
    "lambdaloss(mu=0)": lambda s, g: weighted(s, lambdaloss_weights(s, g, 0.0), lambda v: softplus(-v)),
    "weighted-huber": lambda s, g: weighted(s, lambda_weights(s, g), modified_huber),
    "sdcg": smooth_dcg,
    "sdcg(alpha=3, beta=0.5, k=2)": lambda s, g: smooth_dcg(s, g, 2, 3.0, 0.5),
    "sdcg(k=None, target=dcg)": lambda s, g: smooth_dcg(s, g, None, target="dcg"),
    "shf-sdcg": lambda s, g: smooth_dcg(s, g, hinged=True),
    "shf-sdcg(alpha=0.5, beta=2, k=1)": lambda s, g: smooth_dcg(s, g, 1, 0.5, 2.0, hinged=True),
    "shf-sdcg(k=2, tied=best)": lambda s, g: smooth_dcg(s, g, 2, hinged=True, tied="best"),
    "shf-sdcg(k=3, target=dcg)": lambda s, g: smooth_dcg(s, g, 3, hinged=True, target="dcg"),
    "shf-sdcg(k=None)": lambda s, g: smooth_dcg(s, g, None, hinged=True),
    "sdcg(least_spread=0, beta=0.5)": lambda s, g: in_units(lambda t: smooth_dcg(t, g, beta=0.5), s, 0.0),
    "shf-sdcg(k=3, least_spread=0.5)": lambda s, g: in_units(lambda t: smooth_dcg(t, g, 3, hinged=True), s, 0.5),
    "reg-shf-sdcg": lambda s, g: smooth_dcg(s, g, hinged=True),
}
# As functions of the scores, with the weights of others: what the gradient of such a loss is the derivative of.
FROZEN = {
    "lambda": lambda at, g: frozen_pairs(lambda_weights(at, g), lambda v: softplus(-v)),
    "lambda(k=2, sigma=3)": lambda at, g: frozen_pairs(lambda_weights(at, g, 2), lambda v: softplus(-3.0 * v)),
    "lambdaloss": lambda at, g: frozen_pairs(lambdaloss_weights(at, g), lambda v: softplus(-v)),
    "lambdaloss(mu=0)": lambda at, g: frozen_pairs(lambdaloss_weights(at, g, 0.0), lambda v: softplus(-v)),
    "weighted-huber": lambda at, g: frozen_pairs(lambda_weights(at, g), modified_huber),
    "shf-sdcg": frozen_cutoff,
    "shf-sdcg(alpha=0.5, beta=2, k=1)": lambda at, g: frozen_cutoff(at, g, 1, alpha=0.5, beta=2.0),
    "shf-sdcg(k=2, tied=best)": lambda at, g: frozen_cutoff(at, g, 2, tied="best"),
    "shf-sdcg(k=3, target=dcg)": lambda at, g: frozen_cutoff(at, g, 3, target="dcg"),
    "sdcg(least_spread=0, beta=0.5)": lambda at, g: (
        lambda s: in_units(lambda t: smooth_dcg(t, g, beta=0.5), s, 0.0, at)
    ),
    "shf-sdcg(k=3, least_spread=0.5)": lambda at, g: lambda s: in_units(frozen_cutoff(at, g, 3), s, 0.5, at),
    "reg-shf-sdcg": frozen_cutoff,
}


@cache
def _caller(helper):
    @numba.njit
    def forward(*arguments):
        return helper(*arguments)

    return forward


def call(helper, *arguments):
    """Call a compiled helper, which Python cannot do itself."""
    return _caller(helper)(*arguments)
