"""Click models on two public logs, and their speed beside PyClick's: the tables of docs/clicks.md.

``python benchmarks/click_models.py DIR`` reads from DIR

- ``serps-train.txt.gz`` and ``serps-test.txt.gz`` (of PyClick): every model is fitted to the first and evaluated on the
  second;
- ``train.txt.gz`` and ``human_label_for_NCM.txt.gz`` (of TianGong-ST): every model is fitted to the first, and the
  relevance that it gives to the pairs of the second is compared with the human grades. Kendall's τ_b within each query,
  0 where the model gives all documents the same, is averaged over queries with different grades; Spearman's ρ is over
  all pairs. Intervals of 95 % come from 2,000 bootstrap samples of queries.

``--pyclick FOLDER``, a folder with PyClick's package, also times one step of EM of both on the same pages, in processor
time on one thread: with equal pages counted once, as gainful does, and without.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

import gainful
from gainful.clicks import index
from gainful.compute.threads import limit_threads

TIMED_PAGES = 4_000


def read(path: Path) -> gainful.ClickLog:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gainful.DataWarning)
        log = gainful.read_clicks(path)
    print(f"{path.name}: {log!r}; {'; '.join(log.mended.lines()) or 'nothing mended'}")
    return log


def predictions(folder: Path) -> None:
    train, test = (read(folder / f"serps-{part}.txt.gz") for part in ("train", "test"))
    print("\n| model | log-likelihood per page | perplexity | conditional perplexity | steps | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in gainful.CLICK_MODELS:
        gainful.click_model(name, max_iter=1).fit(train)  # compiles
        start = time.process_time()
        model = gainful.click_model(name).fit(train)
        seconds = time.process_time() - start
        found = model.evaluate(test)
        print(
            f"| {name} | {found.log_likelihood:.4f} | {found.perplexity:.4f} | {found.conditional_perplexity:.4f} "
            f"| {model.n_iter_} | {seconds:.2f} |",
            flush=True,
        )


# -- human grades ------------------------------------------------------------------------------------------------------


def agreement(folder: Path, seed: int = 0) -> None:
    train, judged = read(folder / "train.txt.gz"), read(folder / "human_label_for_NCM.txt.gz")
    pairs, place = index.Pairs.of_log(judged)
    grade = np.bincount(place, weights=judged.grade) / np.bincount(place)
    queries = [np.flatnonzero(pairs.query == q) for q in np.unique(pairs.query)]
    sampled = np.random.default_rng(seed).integers(len(queries), size=(2000, len(queries)))
    print(f"\n{len(grade):,} pairs of {len(queries):,} queries with human grades")
    print("\n| model | τ within queries | ρ over all pairs |\n| --- | --- | --- |")
    position = np.bincount(place, weights=judged.position) / np.bincount(place)
    rows = {"the order shown": -position}
    for name in gainful.CLICK_MODELS:
        model = gainful.click_model(name).fit(train)
        found = model.pairs_.places(pairs.query_ids, pairs.document_ids, pairs.query, pairs.document)
        rows[name] = model._relevance()[0][found]
    for name, relevance in rows.items():
        taus = np.array([within(relevance[rows], grade[rows]) for rows in queries])
        tau = interval(taus, sampled)
        rho = rho_of(queries, np.arange(len(queries)), relevance, grade)
        low, high = np.quantile([rho_of(queries, one, relevance, grade) for one in sampled[:500]], (0.025, 0.975))
        print(f"| {name} | {tau} | {rho:.3f} ({low:.3f} to {high:.3f}) |", flush=True)


def within(relevance: Any, grade: Any) -> float:
    if len(set(grade.tolist())) == 1:
        return float("nan")
    if len(set(relevance.tolist())) == 1:
        return 0.0
    return float(kendalltau(relevance, grade).statistic)


def interval(values: Any, sampled: Any) -> str:
    low, high = np.quantile([np.nanmean(values[sample]) for sample in sampled], (0.025, 0.975))
    return f"{np.nanmean(values):.3f} ({low:.3f} to {high:.3f})"


def rho_of(queries: list[Any], sample: Any, relevance: Any, grade: Any) -> float:
    rows = np.concatenate([queries[q] for q in sample])
    if len(set(relevance[rows].tolist())) == 1:
        return 0.0
    return float(spearmanr(relevance[rows], grade[rows]).statistic)


# -- speed -------------------------------------------------------------------------------------------------------------


def speed(folder: Path, pyclick: Path) -> None:
    log = read(folder / "serps-train.txt.gz")
    few = log.pages(np.random.default_rng(0).permutation(log.n_pages)[:TIMED_PAGES])
    theirs = their_seconds(few, pyclick)
    print("\npages per second of processor time and step of EM, one thread")
    print("\n| model | PyClick | gainful, every page | ratio | gainful, equal pages once (all pages) | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, seconds in theirs.items():
        other = few.n_pages / seconds
        every = few.n_pages / our_seconds(name, few, distinct=False)
        once = log.n_pages / our_seconds(name, log, distinct=True)
        print(f"| {name} | {other:,.0f} | {every:,.0f} | {every / other:,.0f} | {once:,.0f} | {once / other:,.0f} |")


def our_seconds(name: str, log: gainful.ClickLog, *, distinct: bool, steps: int = 20) -> float:
    """Of one step: the difference between many and none, so that what is done once does not count."""
    original = index.distinct_pages
    if not distinct:
        index.distinct_pages = lambda offsets, *_: (np.arange(len(offsets) - 1), np.arange(len(offsets) - 1))
    try:
        with limit_threads(1):
            many, none = (best(lambda n=n: gainful.click_model(name, max_iter=n, tol=0.0).fit(log)) for n in (steps, 0))
    finally:
        index.distinct_pages = original
    return (many - none) / steps


def best(call: Callable[[], object], repeat: int = 3) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def their_seconds(log: gainful.ClickLog, pyclick: Path) -> dict[str, float]:
    """Of one step of PyClick, the difference between two steps and one."""
    sys.path.insert(0, str(pyclick))
    from pyclick.click_models.DBN import DBN
    from pyclick.click_models.Inference import EMInference
    from pyclick.click_models.PBM import PBM
    from pyclick.click_models.UBM import UBM
    from pyclick.search_session.SearchResult import SearchResult
    from pyclick.search_session.SearchSession import SearchSession

    sessions = []
    for i in range(log.n_pages):
        session = SearchSession(str(log.query_ids[log.query[i]]))
        for row in range(int(log.offsets[i]), int(log.offsets[i + 1])):
            session.web_results.append(SearchResult(str(log.document_ids[log.document[row]]), int(log.clicked[row])))
        sessions.append(session)
    found = {}
    for name, model in (("pbm", PBM), ("dbn", DBN), ("ubm", UBM)):
        times = []
        for n in (1, 2):
            made = model()
            made._inference = EMInference(n)
            times.append(best(lambda made=made: made.train(sessions), repeat=1))
        found[name] = times[1] - times[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pyclick", type=Path)
    parser.add_argument("--only", choices=("predictions", "agreement", "speed"))
    given = parser.parse_args()
    if given.only in (None, "predictions"):
        predictions(given.folder)
    if given.only in (None, "agreement"):
        agreement(given.folder)
    if given.pyclick is not None and given.only in (None, "speed"):
        speed(given.folder, given.pyclick)


if __name__ == "__main__":
    main()
