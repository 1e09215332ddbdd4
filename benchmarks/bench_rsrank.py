"""RSRank: the cost of a pass (scores, ranks, weighted pairs, gradient) against X @ w, and the memory of a fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import gainful
from bench_structured import DOCUMENTS, FEATURES, large
from gainful.data.query_weights import pair_counts
from gainful.formats.layout import read_splits
from gainful.linear.frozen_risk import FrozenRisk
from harness import Row, best_time, main, peak_memory


def pass_row(name: str, data: gainful.RankingData) -> Row:
    risk, n_pairs = (
        FrozenRisk(gainful.loss("weighted-huber"), data, np.ones(data.n_features)),
        int(pair_counts(data).sum()),
    )
    u = np.random.default_rng(1).standard_normal(data.n_features)
    w = u.astype(data.X.dtype)
    risk.at(risk.scores(u))
    ours = best_time(lambda: risk.at(risk.scores(u)), repeat=7)
    product = best_time(lambda: data.X @ w, repeat=7)
    return Row(
        f"RSRank, one pass, {name}", "time", ours, "X @ w", product, "s",
        notes={"pairs": n_pairs, "ns per pair": 1e9 * ours / n_pairs},
    )  # fmt: skip


def memory_row() -> Row:
    setup = f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        from bench_structured import large
        import gainful
        gainful.RSRank(max_iter=2, init="zeros").fit(large(20))
        data = large(600)
    """
    size = 600 * DOCUMENTS * FEATURES * 4 / 2**20
    peak = peak_memory(setup, 'gainful.RSRank(max_iter=10, init="zeros").fit(data)')
    return Row("RSRank, 72,000 × 136 float32", "peak memory", peak, "a copy of the features", size, "MiB", wanted=1.0)


def ohsumed_rows(folder: str, criterion: str = "map") -> Iterator[Row]:
    """Quality on the five folds, chosen on the validation queries by ``criterion``; the target is for LETOR's, MAP."""
    measures = {m: gainful.metric(m, convention="letor3") for m in ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map")}
    names = ("rsrank", "rsrank-sparse", "ndcg-reduction")
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for fold in read_splits(folder):
        for name in names:
            model = gainful.ranker(name, eval_metric=measures[criterion]).fit(fold.train, eval_set=fold.valid)
            scores = model.predict(fold.test)
            kept = float(np.mean(model.coef_ != 0))
            found[name].append([*(measure(scores, fold.test) for measure in measures.values()), kept])
    mean = {name: np.mean(values, axis=0) for name, values in found.items()}
    for name, wanted in (("rsrank-sparse", 0.97), ("ndcg-reduction", None)):
        for i, measure in enumerate(measures):
            yield Row(
                f"{name}, OHSUMED, chosen by {criterion}", f"test {measure}", mean[name][i], "rsrank",
                mean["rsrank"][i], "",
                wanted=wanted if (measure, criterion) == ("ndcg@10", "map") else None, larger_is_better=True,
                notes={"features kept": mean[name][-1]},
            )  # fmt: skip


def rows() -> Iterator[Row]:
    ohsumed = gainful.make_artificial(
        106, n_docs=152, n_features=45, n_grades=3, grade_shares=(0.7, 0.16, 0.14), seed=0
    )
    yield pass_row("16,112 × 45 (OHSUMED's shape)", ohsumed)
    yield pass_row("72,000 × 136 float32", large(600))
    yield memory_row()
    folder = os.environ.get("GAINFUL_OHSUMED")
    if folder:
        yield from ohsumed_rows(folder)
        yield from ohsumed_rows(folder, "ndcg@10")


if __name__ == "__main__":
    main(rows)
