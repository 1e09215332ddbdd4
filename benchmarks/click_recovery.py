"""How fast estimates of click models approach the truth: the table of docs/clicks.md.

``python benchmarks/click_recovery.py`` simulates users of every model on random pages of artificial data (20 queries of
10 documents) for 10³ to 10⁶ sessions and fits the model to the log. It prints the root mean square errors of
attractiveness by pair and of examination by position (attractiveness / examination), the exponent b of
error ~ sessions^b from the second size on, and the share of pairs whose truth is within two standard errors, of those
whose true attractiveness is below 0.95. ``--sessions 1000,10000`` measures fewer.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", default=",".join(map(str, SESSIONS)))
    parser.add_argument("--models", default=",".join(name for name in gainful.CLICK_MODELS if name != "ctr"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sessions.split(",")]
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
