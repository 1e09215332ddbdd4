"""The losses as plain formulas over Python loops: slow, and close to how they are written down."""

from __future__ import annotations

import itertools
import math

import numpy as np


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
    """|ΔNDCG@k| of each pair, and the distance of their ranks."""
    k = len(s) if k is None else k
    best, places = ideal(g, k), ranks(s, g)
    D = [np.mean([discount(r) if r <= k else 0.0 for r in own]) for own in places]
    weights = {(i, j): (2.0 ** g[i] - 2.0 ** g[j]) / best * abs(D[i] - D[j]) for i, j in pairs(g)}
    apart = {(i, j): abs(np.mean(places[i]) - np.mean(places[j])) for i, j in pairs(g)}
    return weights, apart


def lambda_weights(s, g, k=None):
    return delta_weights(s, g, k)[0]


def lambdaloss_weights(s, g, mu=10.0):
    weights, apart = delta_weights(s, g)
    best = ideal(g, len(g))
    return {
        (i, j): (w + mu * (2.0 ** g[i] - 2.0 ** g[j]) / best * abs(discount(apart[i, j]) - discount(apart[i, j] + 1)))
        / math.log(2.0)
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


def structured_ndcg(s, g, k=10):
    """By trying every ranking."""
    if len(set(g)) == 1:
        return 0.0
    n = len(s)
    A = lambda r: max(k + 1 - r, 0)  # noqa: E731
    best = ideal(g, k)
    by_grade = sorted(range(n), key=lambda i: -g[i])
    places = {}
    for r, i in enumerate(by_grade, 1):
        places.setdefault(g[i], []).append(r)
    target = sum(s[i] * np.mean([A(r) for r in places[g[i]]]) for i in range(n))
    values = []
    for ranking in itertools.permutations(range(1, n + 1)):
        gain = math.fsum((2.0 ** g[i] - 1.0) * discount(r) for i, r in enumerate(ranking) if r <= k)
        values.append(1.0 - gain / best + sum(A(r) * s[i] for i, r in enumerate(ranking)))
    return max(values) - target


FORMULAS = {
    "pairwise-hinge": lambda s, g: mean_over_pairs(s, g, lambda v: max(0.0, 1.0 - v)),
    "pairwise-squared-hinge": lambda s, g: mean_over_pairs(s, g, lambda v: max(0.0, 1.0 - v) ** 2),
    "ranknet": lambda s, g: mean_over_pairs(s, g, lambda v: softplus(-v)),
    "ranknet(sigma=2.5)": lambda s, g: mean_over_pairs(s, g, lambda v: softplus(-2.5 * v)),
    "listnet": listnet,
    "listmle": listmle,
    "xendcg": xendcg,
    "xendcg(gamma=1)": lambda s, g: xendcg(s, g, 1.0),
    "softrank": softrank,
    "softrank(k=3, sigma=0.5)": lambda s, g: softrank(s, g, 3, 0.5),
    "softrank(k=None)": lambda s, g: softrank(s, g, len(s)),
    "squared": lambda s, g: float(np.mean((np.asarray(s) - np.asarray(g)) ** 2)),
    "lambda": lambda s, g: weighted(s, lambda_weights(s, g), lambda v: softplus(-v)),
    "lambda(k=2, sigma=3)": lambda s, g: weighted(s, lambda_weights(s, g, 2), lambda v: softplus(-3.0 * v)),
    "lambdaloss": lambda s, g: weighted(s, lambdaloss_weights(s, g), lambda v: softplus(-v)),
    "lambdaloss(mu=0)": lambda s, g: weighted(s, lambdaloss_weights(s, g, 0.0), lambda v: softplus(-v)),
    "weighted-huber": lambda s, g: weighted(s, lambda_weights(s, g), modified_huber),
}
# The same with the weights of other scores: what the gradient of a loss with frozen weights is the derivative of.
FROZEN = {
    "lambda": lambda at, g: (lambda_weights(at, g), lambda v: softplus(-v)),
    "lambda(k=2, sigma=3)": lambda at, g: (lambda_weights(at, g, 2), lambda v: softplus(-3.0 * v)),
    "lambdaloss": lambda at, g: (lambdaloss_weights(at, g), lambda v: softplus(-v)),
    "lambdaloss(mu=0)": lambda at, g: (lambdaloss_weights(at, g, 0.0), lambda v: softplus(-v)),
    "weighted-huber": lambda at, g: (lambda_weights(at, g), modified_huber),
}
