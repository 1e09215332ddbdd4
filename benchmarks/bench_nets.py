"""Nets and linear rankers on a device: seconds per epoch against the time to read the same bytes there.

The problem has the shape of MSLR-WEB: 6,000 queries of 120 documents, 136 features, five grades, float32; ten times as
many queries with ``--times 10``. A row's limit is its bytes divided by the bandwidth of copying, measured in the same
run on the same device. For a linear ranker the bytes are X twice in the type it is stored in (scores, gradient); for a
net, X twice in float32 and every hidden unit eight times (written before and after the activation, read by the output
layer, and five times in the backward pass). Losses count as zero bytes, so their time lowers the fraction.

    python benchmarks/bench_nets.py                        on the CPU
    python benchmarks/bench_nets.py --device cuda          on a GPU, and against the CPU if numba is installed
    python benchmarks/bench_nets.py --device cuda --check  checks that the GPU trains the CPU's models; no timing
    python benchmarks/bench_nets.py --ragged               losses on padded queries against segment operations

Without PyTorch the first of these says so and measures nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from harness import Row, best_time, main

DOCUMENTS, FEATURES, HIDDEN = 120, 136, 64
SHARES = (0.5, 0.3, 0.13, 0.05, 0.02)
LOSSES = ("squared", "listnet", "ranknet", "lambda")
BATCH_QUERIES = 512  # the same on all devices, so that they do the same work
UNIT_PASSES = 8  # times a hidden unit is written or read per epoch


def data_of(n_queries: int) -> RankingData:
    """Float32 features with a linear signal and noise."""
    rng = np.random.default_rng(0)
    n_rows = n_queries * DOCUMENTS
    X = rng.random((n_rows, FEATURES), dtype=np.float32)
    signal = X @ rng.standard_normal(FEATURES).astype(np.float32) + rng.standard_normal(n_rows).astype(np.float32)
    cuts = np.quantile(signal[: min(n_rows, 1_000_000)], np.cumsum(SHARES)[:-1])
    return RankingData._build_unchecked(
        X=X,
        y=np.searchsorted(cuts, signal).astype(np.float64),
        offsets=np.arange(n_queries + 1, dtype=np.int64) * DOCUMENTS,
        query_ids=np.arange(n_queries),
    )


@cache
def bandwidth(device: str) -> float:
    """Bytes per second that copying reads and writes."""
    import torch

    source = torch.zeros(1 << 27, dtype=torch.float32, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        if device != "cpu":
            torch.cuda.synchronize()

    copy()
    return 2.0 * source.nbytes / best_time(copy, repeat=5)


# -- what is timed -----------------------------------------------------------------------------------------------------


def net_settings(device: str, **changed: Any) -> Any:
    from gainful.nets.train import NetSettings

    usual = {
        "hidden": (HIDDEN,), "activation": "relu", "dropout": 0.0, "batch_queries": BATCH_QUERIES,
        "optimizer": "adam", "learning_rate": 1e-3, "weight_decay": 0.0, "epochs": 1, "device": device,
        "dtype": "float32", "seed": 0,
    }  # fmt: skip
    return NetSettings(**(usual | changed))


def epoch_of_net(name: str, data: RankingData, device: str) -> Callable[[], object]:
    from gainful.losses import loss
    from gainful.nets.epochs import Epochs
    from gainful.nets.train import Batches, Inputs, Net, _optimizer

    settings = net_settings(device)
    net = Net(FEATURES, settings)
    inputs = Inputs(np.full(FEATURES, 0.5), np.full(FEATURES, 12.0**-0.5), "float32")
    batches = Batches(loss(name), data, settings, inputs, net.weights[0].detach()[:0, 0])
    optimizer, order = _optimizer(net, settings), np.random.default_rng(0)
    run_epoch = Epochs(net, batches, optimizer)
    return lambda: run_epoch(order.permutation(len(batches)))


def pass_of_linear(name: str, data: RankingData, device: str) -> tuple[Callable[[], object], int]:
    """One value and gradient, and the bytes of X as stored."""
    from gainful.losses import loss

    w = 0.1 * np.random.default_rng(1).standard_normal(FEATURES)
    if device == "cpu":
        from gainful.linear.blockwise import linear_risk

        risk = linear_risk(loss(name), data)
        return lambda: risk.without_scores(w), data.X.nbytes
    from gainful.linear.tensor_risk import TensorLinearRisk

    held = TensorLinearRisk(loss(name), data, device=device)
    return lambda: held.without_scores(w), held.X.nbytes


def seconds(call: Callable[[], object]) -> float:
    call()  # compiles, fills caches
    return best_time(call)


def timed(kind: str, name: str, data: RankingData, device: str) -> tuple[float, float]:
    """Seconds of a pass, and the seconds to read its bytes."""
    if kind == "net":
        call = epoch_of_net(name, data, device)
        counted = 2 * 4 * data.n_rows * FEATURES + UNIT_PASSES * 4 * data.n_rows * HIDDEN
    else:
        call, held = pass_of_linear(name, data, device)
        counted = 2 * held
    return seconds(call), counted / bandwidth(device)


# -- rows --------------------------------------------------------------------------------------------------------------


def device_rows(device: str, times: int) -> Iterator[Row]:
    data = data_of(6_000 * times)
    shape = f"{data.n_rows:,} × {FEATURES} float32"
    beside_cpu = device != "cpu" and find_spec("numba") is not None
    for kind, name in ((kind, name) for kind in ("net", "linear") for name in LOSSES):
        what = "net, an epoch" if kind == "net" else "linear, value and gradient"
        ours, limit = timed(kind, name, data, device)
        notes: dict[str, float | str] = {
            "rows per second": data.n_rows / ours, "device": device, "copy GB/s": bandwidth(device) / 1e9,
        }  # fmt: skip
        yield Row(f"{name}, {what}, {shape}, {device}", "time", ours, "reading its bytes", limit, "s", notes=notes)
        if beside_cpu:
            theirs, _ = timed(kind, name, data, "cpu")
            yield Row(f"{name}, {what}, {shape}, {device}", "time", ours, "the CPU of this machine", theirs, "s")


def rows() -> Iterator[Row]:
    options = arguments()
    lacks = missing(options.device)
    if lacks:
        print(f"bench_nets.py measures nothing: {lacks}", file=sys.stderr)
    elif options.ragged:
        yield from ragged_rows(options.device)
    else:
        yield from device_rows(options.device, options.times)


# -- padding beside segments -------------------------------------------------------------------------------------------


def ragged_rows(device: str) -> Iterator[Row]:
    """Value and gradient of one batch, padded as in the package and by segment operations on its rows."""
    import torch

    from gainful.losses import loss
    from gainful.losses.tensors import tensor_loss

    rng = np.random.default_rng(0)
    counts = np.clip(rng.lognormal(np.log(DOCUMENTS) - 0.18, 0.6, BATCH_QUERIES), 1, 1251).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    y = rng.choice(len(SHARES), int(offsets[-1]), p=SHARES).astype(np.float64)
    scores = torch.as_tensor(rng.standard_normal(len(y)), dtype=torch.float32, device=device)
    for name, build in (("listnet", segment_listnet), ("ranknet", segment_ranknet)):
        padded, (segments, held) = tensor_loss(loss(name), y, offsets, scores), build(y, offsets, device)
        for one, other in zip(padded(scores), segments(scores), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
        ours, theirs = (seconds(finished(form, scores, device)) for form in (padded, segments))
        what = (
            f"{name}, {BATCH_QUERIES} queries of {counts.min()} to {counts.max()} documents, {len(y):,} rows, {device}"
        )
        notes = {"threads": float(torch.get_num_threads()), "segments hold MB": held / 1e6}
        yield Row(what, "time", ours, "segment operations", theirs, "s", notes=notes)


def finished(form: Callable[[Any], object], scores: Any, device: str) -> Callable[[], object]:
    """A call that returns once the device is done."""
    import torch

    return lambda: (form(scores), torch.cuda.synchronize() if device != "cpu" else None)


def segment_listnet(y: np.ndarray, offsets: np.ndarray, device: str) -> tuple[Callable[[Any], Any], int]:
    """Cross entropy of softmax(y) and softmax(scores), and the bytes it keeps."""
    import torch

    n_queries = len(offsets) - 1
    query = torch.as_tensor(np.repeat(np.arange(n_queries), np.diff(offsets)), device=device)

    def log_softmax(t: Any) -> Any:
        top = torch.full((n_queries,), -torch.inf, dtype=t.dtype, device=device)
        t = t - top.scatter_reduce(0, query, t, "amax")[query]
        return t - total(t.exp()).log()[query]

    def total(t: Any) -> Any:
        return torch.zeros(n_queries, dtype=t.dtype, device=device).index_add(0, query, t)

    differs = np.maximum.reduceat(y, offsets[:-1]) > np.minimum.reduceat(y, offsets[:-1])
    target = log_softmax(torch.as_tensor(y, dtype=torch.float32, device=device)).exp()
    target *= torch.as_tensor(differs, device=device)[query]
    wanted = total(target)[query]

    def form(t: Any) -> Any:
        logs = log_softmax(t)
        return -total(target * logs), wanted * logs.exp() - target

    return form, query.nbytes + target.nbytes + wanted.nbytes


def segment_ranknet(y: np.ndarray, offsets: np.ndarray, device: str) -> tuple[Callable[[Any], Any], int]:
    """Mean logistic loss over explicit pairs, and the bytes it keeps."""
    import torch

    found = [np.nonzero(y[a:b, None] > y[None, a:b]) for a, b in pairwise(offsets)]
    over, under = (
        torch.as_tensor(
            np.concatenate([a + pair[k] for a, pair in zip(offsets[:-1], found, strict=True)]), device=device
        )
        for k in (0, 1)
    )
    sizes = np.array([len(pair[0]) for pair in found])
    query = torch.as_tensor(np.repeat(np.arange(len(sizes)), sizes), device=device)
    share = torch.as_tensor(1.0 / np.maximum(sizes, 1), dtype=torch.float32, device=device)

    def form(t: Any) -> Any:
        d = t[over] - t[under]
        slope = -torch.sigmoid(-d) * share[query]
        values = torch.zeros_like(share).index_add(0, query, -torch.nn.functional.logsigmoid(d)) * share
        return values, torch.zeros_like(t).index_add(0, over, slope).index_add(0, under, -slope)

    return form, over.nbytes + under.nbytes + query.nbytes


# -- the same model on both ------------------------------------------------------------------------------------------


def check(device: str) -> bool:
    """Whether nets and linear models trained on ``device`` equal those of the CPU, loss by loss."""
    from gainful.losses import LOSSES as KNOWN
    from gainful.losses import loss
    from gainful.losses.tensors import FORMS

    reference = "cpu" if find_spec("numba") is not None else "torch-cpu"
    print(f"{device} beside {reference}" + ("" if reference == "cpu" else " (numba is missing: no compiled losses)"))
    data, good = ragged(300), True
    compiled_only = [name for name in KNOWN if name not in FORMS] if reference == "cpu" else []
    for name in (*FORMS, *compiled_only):
        ours, theirs = (net_weights(name, data, where) for where in (device, reference))
        # Relative to the largest weight: shift-invariant losses leave the output bias at 0, up to rounding.
        net = max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))
        net /= max(float(np.abs(b).max()) for b in theirs)
        one, other = (linear_of(loss(name), data, where) for where in (device, reference))
        linear = float(np.abs(one - other).max() / np.abs(other).max())
        good &= net < 1e-12 and linear < 1e-12
        print(
            f"{name:24} weights of a net after 5 epochs {net:.1e}, linear value and gradient {linear:.1e}", flush=True
        )
    print("equal to tolerance (1e-12)" if good else "NOT equal to tolerance")
    return good


def ragged(n_queries: int) -> RankingData:
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 200, n_queries)
    X = rng.standard_normal((int(counts.sum()), 20))
    y = np.clip(np.round(X[:, 0] + rng.standard_normal(len(X)) + 1.0), 0.0, 4.0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return RankingData._build_unchecked(X=X, y=y, offsets=offsets, query_ids=np.arange(n_queries))


def net_weights(name: str, data: RankingData, device: str) -> list[np.ndarray]:
    from gainful.losses import loss
    from gainful.metrics import metric
    from gainful.nets.train import Inputs, train_net
    from gainful.training.monitor import Monitor

    # Steps by SGD follow the gradient; Adam's divide by it, and would blow up the rounding of gradients near 0.
    settings = net_settings(
        device.replace("torch-", ""), epochs=5, dtype="float64", batch_queries=50, activation="tanh", optimizer="sgd",
        learning_rate=0.01,
    )  # fmt: skip
    if device == "torch-cpu":
        settings = type(settings)(**(vars(settings) | {"device": device}))
    inputs = Inputs(np.zeros(20), np.ones(20), "float64")
    return train_net(loss(name), data, inputs, settings, Monitor(metric=metric("ndcg@10")))


def linear_of(chosen: Any, data: RankingData, device: str) -> np.ndarray:
    w = 0.3 * np.random.default_rng(3).standard_normal(20)
    if device == "cpu":
        from gainful.linear.risk import LinearRisk

        value, gradient, _ = LinearRisk.of(chosen, data).value_and_gradient(w)
    else:
        from gainful.linear.tensor_risk import TensorLinearRisk

        value, gradient, _ = TensorLinearRisk(chosen, data, device=device).value_and_gradient(w)
    return np.append(gradient, value)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--times", type=int, default=1, help="how many times 720,000 rows")
    parser.add_argument("--ragged", action="store_true", help="padded queries against segment operations")
    parser.add_argument("--check", action="store_true", help="compare the models instead of timing")
    return parser.parse_args()


def missing(device: str) -> str:
    """What is missing to run this, or an empty text."""
    wanted = ["torch", "numba"] if device == "cpu" else ["torch"]
    absent = [name for name in wanted if find_spec(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    import torch

    return "" if device == "cpu" or torch.cuda.is_available() else "PyTorch sees no GPU here"


if __name__ == "__main__":
    lacks = missing(arguments().device)
    if lacks and (arguments().check or arguments().device != "cpu"):
        sys.exit(f"bench_nets.py cannot run on {arguments().device}: {lacks}")
    if arguments().check:
        start = time.perf_counter()
        fine = check(arguments().device)
        print(f"{time.perf_counter() - start:.0f} s")
        sys.exit(0 if fine else 1)
    main(rows)
