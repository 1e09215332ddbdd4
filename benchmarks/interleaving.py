"""Interleaving beside A/B testing: the table of docs/clicks-evaluation.md.

``python benchmarks/interleaving.py`` simulates users (PBM with η = 1, whose clicks follow grades, 10 % noise) on
artificial data. A ranks by grades plus noise, B by grades plus a little more noise. Each method is given many
impressions; experiments of several sizes are drawn from them, and each is decided by its test at 5 %. It prints how
often the better ranker is found, and the false alarms with blind users, whose clicks depend on positions alone: on
these rankings, and where B is A with its last document on top. There wins are also counted where credits differ from
±1, for which gainful refuses the sign test. A/B testing shows A's page to half of the users and B's to the other half,
and compares clicks per page (Welch's t).
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy import stats

import gainful
from gainful.clicks.interleaving import METHODS

SIZES = (100, 300, 1000, 3000)
LENGTH = 10
FOUND, ALARMS, PROMOTED = 1000, 1000, 200  # experiments
QUERIES, DOCUMENTS = 40, 20


def rankings(data: gainful.RankingData, scores: np.ndarray) -> list[np.ndarray]:
    """The rows of each query, best first."""
    return [
        start + np.argsort(-scores[start:stop], kind="stable")
        for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]


def clicks_on(pages: np.ndarray, query: np.ndarray, data: gainful.RankingData, seed: int) -> np.ndarray:
    """(impressions, length): the clicks of simulated users on pages of rows of the data."""
    n, length = pages.shape
    names = pages.ravel() if data.doc_ids is None else data.doc_ids[pages.ravel()]
    shown = gainful.ClickLog.from_rows(
        session=np.repeat(np.arange(n), length),
        query=np.repeat(data.query_ids[query], length),
        position=np.tile(np.arange(1, length + 1), n),
        document=names,
        clicked=np.zeros(n * length),
    )
    users = gainful.make_click_model("pbm", data, eta=1.0, depth=length)
    return gainful.simulate_clicks(shown, users, seed=seed).clicked.reshape(n, length)


def interleaved_lists(
    a: list[np.ndarray], b: list[np.ndarray], query: np.ndarray, method: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the data, and credits, (impressions, length) each."""
    shown = [gainful.interleave(a[q][:LENGTH], b[q][:LENGTH], method, length=LENGTH, seed=rng) for q in query]
    return np.array([one.documents for one in shown]), np.array([one.credit for one in shown])


def interleaved_outcomes(
    a: list[np.ndarray], b: list[np.ndarray], data: gainful.RankingData, method: str, n: int, seed: int
) -> np.ndarray:
    """Outcomes of simulated users, (n,)."""
    rng = np.random.default_rng(seed)
    query = rng.integers(data.n_queries, size=n)
    pages, credit = interleaved_lists(a, b, query, method, rng)
    return (clicks_on(pages, query, data, seed) * credit).sum(axis=1)


def blind_outcomes(a: list[np.ndarray], b: list[np.ndarray], method: str, n: int, seed: int) -> np.ndarray:
    """Outcomes of users who click position r with probability 1 / (r + 1), whatever is there, (n,)."""
    rng = np.random.default_rng(seed)
    _, credit = interleaved_lists(a, b, rng.integers(len(a), size=n), method, rng)
    return ((rng.random(credit.shape) < 1.0 / np.arange(2, LENGTH + 2)) * credit).sum(axis=1)


def ab_clicks(a: list[np.ndarray], data: gainful.RankingData, n: int, seed: int) -> np.ndarray:
    """Clicks per page of one ranker, (n,)."""
    query = np.random.default_rng(seed).integers(data.n_queries, size=n)
    pages = np.array([a[q][:LENGTH] for q in query])
    return clicks_on(pages, query, data, seed + 1).sum(axis=1)


def draw(outcomes: np.ndarray, size: int, experiments: int, seed: int) -> np.ndarray:
    """(experiments, size) of the outcomes."""
    return outcomes[np.random.default_rng(seed).integers(len(outcomes), size=(experiments, size))]


def verdicts(experiments: np.ndarray, test: str) -> np.ndarray:
    """1, −1 or 0 for each row of outcomes: A is better, B is, or no difference is shown."""
    named = {"A": 1, "B": -1, None: 0}
    return np.array([named[gainful.analyse_interleaving(one, test=test).winner] for one in experiments])


def count_wins(experiments: np.ndarray) -> np.ndarray:
    """The verdicts of the exact sign test, fair or not."""
    up, down = ((experiments * sign > 1e-9).sum(axis=1) for sign in (1, -1))
    p = 2 * stats.binom.cdf(np.minimum(up, down), up + down, 0.5)
    return np.where(p <= 0.05, np.sign(up - down), 0)


def ab_verdicts(a: np.ndarray, b: np.ndarray, size: int, experiments: int) -> np.ndarray:
    first, second = draw(a, size // 2, experiments, seed=1), draw(b, size // 2, experiments, seed=2)
    found = stats.ttest_ind(first, second, axis=1, equal_var=False)
    return np.where(found.pvalue <= 0.05, np.sign(found.statistic), 0)


def share(hits: np.ndarray) -> str:
    error = math.sqrt(max(hits.mean() * (1 - hits.mean()), 1e-9) / len(hits))
    return f"{hits.mean():.3f} ± {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--impressions", type=int, default=40_000, help="per method and question")
    parser.add_argument("--alarms", type=int, default=ALARMS, help="experiments with blind users")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    given = parser.parse_args()
    sizes = [int(one) for one in given.sizes.split(",")]
    start = time.process_time()
    data = gainful.make_artificial(QUERIES, n_docs=DOCUMENTS, seed=3)
    rng = np.random.default_rng(1)
    better = rankings(data, data.y + 0.8 * rng.normal(size=data.n_rows))
    worse = rankings(data, data.y + 1.4 * rng.normal(size=data.n_rows))
    alarm = sizes[min(1, len(sizes) - 1)]
    titles = [f"found in {size:,}" for size in sizes] + [f"false alarms in {alarm:,}", "share of blind wins for A"]
    titles.append("false alarms in 1,000, one document on top")
    print(f"| method | {' | '.join(titles)} |\n|{' --- |' * (len(titles) + 1)}")
    n = given.impressions
    for method in METHODS:
        outcomes = interleaved_outcomes(better, worse, data, method, n, seed=5)
        blind = blind_outcomes(better, worse, method, given.alarms * alarm, seed=7)
        promoted = blind_outcomes([np.arange(LENGTH)], [np.roll(np.arange(LENGTH), 1)], method, PROMOTED * 1000, seed=9)
        promoted = promoted.reshape(PROMOTED, 1000)
        by_wins = share(count_wins(promoted) != 0)
        if method != "team-draft":
            print(f"| {method}, sign (refused) |{' |' * (len(sizes) + 2)} {by_wins} |")
        for test in ("sign", "t") if method == "team-draft" else ("t",):
            cells = [share(verdicts(draw(outcomes, size, FOUND, seed=size), test) == 1) for size in sizes]
            cells += [share(verdicts(blind.reshape(-1, alarm), test) != 0), share(blind[blind != 0] > 0)]
            cells.append(by_wins if test == "sign" else share(verdicts(promoted, test) != 0))
            print(f"| {method}, {test} | {' | '.join(cells)} |")
    a, b = ab_clicks(better, data, n, seed=8), ab_clicks(worse, data, n, seed=10)
    again = ab_clicks(better, data, n, seed=12)
    cells = [share(ab_verdicts(a, b, size, FOUND) == 1) for size in sizes]
    cells.append(share(ab_verdicts(a, again, alarm, given.alarms) != 0))
    print(f"| A/B | {' | '.join(cells)} | | |")
    print(f"\nclicks per page: {a.mean():.3f} and {b.mean():.3f}")
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
