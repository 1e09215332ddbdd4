"""How fast estimates of click models approach the truth: the table of docs/clicks.md.

``python benchmarks/click_recovery.py`` simulates users of every model on random pages of artificial data (20 queries of
10 documents) for 10³ to 10⁶ sessions and fits the model to the log. It prints the root mean square errors of
attractiveness by pair and of examination by position (attractiveness / examination), the exponent b of
error ~ sessions^b from the second size on, and the share of pairs whose truth is within two standard errors, of those
whose true attractiveness is below 0.95. ``--sessions 1000,10000`` measures fewer.

``--coverage 20`` prints another table: over 20 logs of each size, whose users' wishes come from grades or from a Beta
distribution, the share of 95 % intervals of the parameters of pairs that hold the truth, the share of grades that are
right beside their mean confidence, and the share of intervals of examination in a click report that hold.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gainful

SESSIONS = (1_000, 10_000, 100_000, 1_000_000)


def errors_of(name: str, data: gainful.RankingData, sessions: int, seed: int) -> dict[str, float]:
    truth = gainful.make_click_model(name, data)
    log = gainful.simulate_clicks(data, name, sessions=sessions, temperature=1e6, seed=seed)
    start = time.process_time()
    model = gainful.click_model(name).fit(log)
    seconds = time.process_time() - start
    known = truth.pairs_
    place = model.pairs_.places(known.query_ids, known.document_ids, known.query, known.document)
    off = model.theta_["attractiveness"][place] - truth.attractiveness_
    inside = truth.attractiveness_ < 0.95
    z = np.abs(off[inside] / model.errors_["attractiveness"][place][inside])
    by_position = (
        np.bincount(log.position, weights=model.propensities(log) - log.propensity)[1:] / log.shown_by_position
    )
    return {
        "attractiveness": float(np.sqrt(np.mean(off**2))),
        "examination": float(np.sqrt(np.mean(by_position**2))),
        "covered": float(np.mean(z < 2.0)),
        "steps": model.n_iter_,
        "seconds": seconds,
    }


def with_uneven_wishes(users: gainful.ClickModel, rng: np.random.Generator) -> gainful.ClickModel:
    """Users whose wishes are Beta(1, 3): most pairs are wanted a little, and few much."""
    users.theta_ = users.theta_ | {name: rng.beta(1, 3, len(users.pairs_) + 1) for name in users.pair_parameters}
    return users


def coverage_of(name: str, wishes: str, sessions: int, seed: int) -> list[np.ndarray]:
    """Whether intervals of pairs hold; confidences; whether grades are right; whether intervals of examination hold."""
    rng = np.random.default_rng(seed)
    data = gainful.make_artificial(20, n_docs=10, seed=seed)
    users = gainful.make_click_model(name, data)
    if wishes == "beta":
        users = with_uneven_wishes(users, rng)
    log = gainful.simulate_clicks(data, users, sessions=sessions, temperature=1e6, seed=seed)
    model = gainful.click_model(name).fit(log)
    pairs = users.pairs_
    place = model.pairs_.places(pairs.query_ids, pairs.document_ids, pairs.query, pairs.document)
    hits = []
    for one in model.pair_parameters:
        truth = users.theta_[one][:-1]
        off = np.abs(model.theta_[one][place] - truth) <= 1.96 * model.errors_[one][place]
        hits.append(off[truth < 0.95])  # no standard error holds at 1
    ids = zip(pairs.query_ids[pairs.query].tolist(), pairs.document_ids[pairs.document].tolist(), strict=True)
    judged = model.judge(list(ids))
    levels = (2.0 ** np.arange(5) - 1) / 16
    right = np.abs(users._relevance()[0][:-1, None] - levels).argmin(axis=1) == judged.grades
    found = gainful.report_clicks(log, [name], seed=seed).models[0]
    true = np.bincount(log.position, weights=log.propensity)[1:] / log.shown_by_position
    held = (found.examination_low <= true) & (true <= found.examination_high)
    return [np.concatenate(hits), judged.confidence, right, held[1:] if len(held) else np.empty(0)]


def print_coverage(names: list[str], sizes: list[int], logs: int) -> None:
    print("| model | wishes | sessions | intervals of pairs | confidence | grades right | intervals of examination |")
    print("| --- |" + " --- |" * 6)
    for name in names:
        for wishes in ("grades", "beta"):
            for size in sizes:
                found = zip(*(coverage_of(name, wishes, size, seed) for seed in range(logs)), strict=True)
                cells = [f"{np.concatenate(one).mean():.3f}" for one in found]
                print(f"| {name} | {wishes} | {size:,} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", default=",".join(map(str, SESSIONS)))
    parser.add_argument("--models", default=",".join(name for name in gainful.CLICK_MODELS if name != "ctr"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--coverage", type=int, default=0, metavar="LOGS", help="print coverage over this many logs")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sessions.split(",")]
    if given.coverage:
        print_coverage(given.models.split(","), sizes, given.coverage)
        return
    data = gainful.make_artificial(20, n_docs=10, seed=1)
    print(f"| model | {' | '.join(f'{n:,}' for n in sizes)} | exponent | within 2 errors |")
    print("| --- |" + " --- |" * (len(sizes) + 2))
    for name in given.models.split(","):
        found = [errors_of(name, data, n, given.seed) for n in sizes]
        cells = " | ".join(f"{one['attractiveness']:.4f} / {one['examination']:.4f}" for one in found)
        slopes = " / ".join(exponent(sizes, [one[what] for one in found]) for what in ("attractiveness", "examination"))
        print(f"| {name} | {cells} | {slopes} | {found[-1]['covered']:.2f} |", flush=True)


def exponent(sizes: list[int], errors: list[float]) -> str:
    """b of error ~ sessions^b, from the second size on."""
    if len(sizes) < 3 or min(errors[1:]) < 1e-12:
        return "–"
    return f"{np.polyfit(np.log(sizes[1:]), np.log(errors[1:]), 1)[0]:.2f}"


if __name__ == "__main__":
    main()
