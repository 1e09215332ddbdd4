"""Nets over lists: the time of an epoch against the bytes it moves, and what padding lists of different length costs.

Data is as in ``bench_nets.py``: queries of 120 documents, 136 float32 features; the net has its default shape. A row's
limit is its bytes divided by the bandwidth of copying, measured in the same run on the same device. Bytes are those of
X, copied once per model with its noise and read twice, of the hidden units eight times (as in ``bench_nets.py``), and
of what a block of attention keeps per unit: queries, keys, values, what is gathered, projected, added, normalised,
scaled and crossed, each written, read and, with its gradient, three times more in the backward pass. Attention itself
and the loss count as zero bytes, so their time lowers the fraction.

The ragged rows have queries of 9 to about 630 documents. They compare an epoch with lists padded by groups of similar
length against one with all lists of a batch padded to its longest.

    python benchmarks/bench_list_net.py                             on the CPU, few queries
    python benchmarks/bench_list_net.py --device cuda               on a GPU, 720,000 rows
    python benchmarks/bench_list_net.py --device cuda --times 10    ten times as many
    python benchmarks/bench_list_net.py --device cuda --check       the GPU trains the CPU's model; no timing

Without PyTorch it says so and measures nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench_nets import BATCH_QUERIES, DOCUMENTS, FEATURES, UNIT_PASSES, bandwidth, data_of, missing, ragged, seconds
from gainful.compute.threads import limit_torch_threads
from gainful.data.dataset import RankingData
from gainful.rankers.attention import AttentionRanker
from harness import Row, main

LOSSES = ("listnet", "lambda")
ARRAYS_OF_BLOCK = 9  # of one number per row and unit
PASSES = 5  # of each such array through memory
ON_CPU, ON_GPU = 200, 6_000  # queries
PADDED = 1 << 62  # pairs: one group per batch


def ragged_data(n_queries: int) -> RankingData:
    """The rows of :func:`data_of`, as queries of very different length."""
    rng = np.random.default_rng(0)
    whole = data_of(n_queries)
    counts = np.clip(rng.lognormal(np.log(DOCUMENTS) - 0.18, 0.6, n_queries), 1, 1251).astype(np.int64)
    ends = np.cumsum(counts)
    fitting = int(np.searchsorted(ends, whole.n_rows, side="right"))
    offsets = np.concatenate([[0], ends[:fitting]])
    n = int(offsets[-1])
    return RankingData._build_unchecked(X=whole.X[:n], y=whole.y[:n], offsets=offsets, query_ids=np.arange(fitting))


def epoch(name: str, data: RankingData, ranker: AttentionRanker, device: str, slack: int | None) -> Any:
    """One epoch as a function, and its batches."""
    import torch

    from gainful.losses import loss
    from gainful.nets.epochs import Epochs
    from gainful.nets.lists import Layout, ListNet
    from gainful.nets.train import Batches, Inputs, _optimizer

    settings = ranker._settings(device)
    net = ListNet(FEATURES, settings)
    inputs = Inputs(np.full(FEATURES, 0.5), np.full(FEATURES, 12.0**-0.5), "float32")
    layout = net.layout if slack is None else lambda counts: Layout(counts, net.device, slack)
    batches = Batches(loss(name), data, settings, inputs, net.weights[0].detach().ravel()[:0], layout)
    run_epoch, order = Epochs(net, batches, _optimizer(net, settings)), np.random.default_rng(0)

    def run() -> None:
        with limit_torch_threads(torch):
            run_epoch(order.permutation(len(batches)))  # ends with a copy to the host

    return run, batches


def bytes_of(ranker: AttentionRanker, n_rows: int) -> float:
    units = UNIT_PASSES * sum(ranker.hidden) + PASSES * ARRAYS_OF_BLOCK * ranker.hidden[-1] * ranker.blocks
    return 4.0 * n_rows * (FEATURES + ranker.models * (3 * FEATURES + units))


def pairs_of(batches: Any) -> tuple[int, int]:
    """Pairs of documents that attention compares, and those of them that are not padding."""
    groups = [group for batch in batches.all for group in batch.layout.groups]
    useful = [batch.layout.useful_pairs for batch in batches.all]
    return sum(group.m * group.n**2 for group in groups), sum(useful)


def device_rows(device: str, n_queries: int) -> Iterator[Row]:
    ranker = AttentionRanker(batch_queries=min(BATCH_QUERIES, n_queries))
    data, torn = data_of(n_queries), ragged_data(n_queries)
    for name in LOSSES:
        what = f"{name}, list-net, an epoch, {data.n_rows:,} × {FEATURES} float32, {ranker.models} models, {device}"
        call, _ = epoch(name, data, ranker, device, None)
        ours, limit = seconds(call), bytes_of(ranker, data.n_rows) / bandwidth(device)
        notes: dict[str, float | str] = {"rows per second": data.n_rows / ours, "copy GB/s": bandwidth(device) / 1e9}
        yield Row(what, "time", ours, "moving its bytes", limit, "s", notes=notes)
    times: list[float] = []
    waste: list[float] = []
    for slack in (None, PADDED):
        call, batches = epoch(LOSSES[0], torn, ranker, device, slack)
        times.append(seconds(call))
        compared, useful = pairs_of(batches)
        waste.append(compared / useful - 1.0)
    counts = torn.counts
    lengths = f"queries of {counts.min()} to {counts.max()} documents"
    what = f"{LOSSES[0]}, list-net, an epoch, {lengths}, {torn.n_rows:,} rows, {device}"
    shares: dict[str, float | str] = {"padded pairs, groups": waste[0], "padded pairs, longest": waste[1]}
    yield Row(what, "time", times[0], "all lists of a batch padded to the longest", times[1], "s", notes=shares)


def rows() -> Iterator[Row]:
    options = arguments()
    lacks = missing(options.device)
    if lacks:
        print(f"bench_list_net.py measures nothing: {lacks}", file=sys.stderr)
        return
    n_queries = options.queries or (ON_CPU if options.device == "cpu" else ON_GPU)
    yield from device_rows(options.device, n_queries * options.times)


def check(device: str) -> bool:
    """Whether a net trained on ``device`` scores as one trained on the CPU, loss by loss."""
    data, good = ragged(60), True
    settings = {"epochs": 4, "dtype": "float64", "noise": 0.0, "dropout": 0.0, "batch_queries": 20, "loss": ""}
    for name in (*LOSSES, "ranknet"):
        one, other = (
            AttentionRanker(**settings | {"loss": name, "device": where}).fit(data).predict(data)
            for where in (device, "cpu")
        )
        difference = float(np.abs(one - other).max() / np.abs(other).max())
        good &= difference < 1e-7
        print(f"{name:10} largest difference of scores after 4 epochs {difference:.1e}", flush=True)
    print("equal to tolerance (1e-7)" if good else "NOT equal to tolerance")
    return good


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--times", type=int, default=1, help="how many times the queries")
    parser.add_argument("--queries", type=int, help=f"queries; by default {ON_CPU} on the CPU, {ON_GPU:,} on a GPU")
    parser.add_argument("--check", action="store_true", help="compare the models instead of timing")
    return parser.parse_args()


if __name__ == "__main__":
    lacks = missing(arguments().device)
    if lacks and (arguments().check or arguments().device != "cpu"):
        sys.exit(f"bench_list_net.py cannot run on {arguments().device}: {lacks}")
    if arguments().check:
        sys.exit(0 if check(arguments().device) else 1)
    main(rows)
