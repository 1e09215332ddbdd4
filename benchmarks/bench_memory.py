"""The estimate of memory that fit checks, against the measured peak: the table of docs/decisions/0039-memory.md.

``python benchmarks/bench_memory.py`` fits each case in a process of its own, with the data in memory before the fit,
and prints estimate, peak growth and ratio as Markdown. It ends with 1 if a ratio is outside 0.7 … 1.5, the factors by
which ``gainful.rankers.memory`` warns and refuses. A few minutes; ``--families trees,kernel`` takes some.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cost_fits import Shape, generated
from harness import Row

TREES = {"n_trees": 2, "early_stopping": None}
LINEAR = {"max_iter": 3, "tol": 1e-300}
SPARSE_SHARE = 0.05


@dataclass(frozen=True)
class Case:
    family: str
    ranker: str
    shape: Shape
    params: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    sparse: bool = False
    valid: bool = False


BY_COLUMN = {"engine_params": {"force_col_wise": True}}
MANY_LEAVES = {"n_leaves": 1000, "min_docs_in_leaf": 1}
SVM, KERNEL = "structured-svm", "structured-svm-kernel"
NET = {"epochs": 1, "device": "cpu"}
DUAL = {"solver": "stochastic", "max_iter": 1}
ROUNDS = {"n_rounds": 2, "early_stopping": None}

CASES = (
    Case("trees", "lambdamart", Shape(100_000, 136), TREES),
    Case("trees", "lambdamart", Shape(1_500_000, 136), TREES),
    Case("trees", "lambdamart", Shape(2_000_000, 10), TREES),
    Case("trees", "lambdamart", Shape(300_000, 136), TREES | BY_COLUMN, "by column"),
    Case("trees", "lambdamart", Shape(300_000, 136), TREES | {"bins": 1000}, "1,000 bins"),
    Case("trees", "lambdamart", Shape(10_000, 136), TREES | MANY_LEAVES, "1,000 leaves"),
    Case("trees", "lambdamart", Shape(200_000, 50), TREES, "validation of the same size", valid=True),
    Case("trees", "lambdamart", Shape(20_000, 1000), TREES, "5 % not zero", sparse=True),
    Case("trees", "gbrank", Shape(500_000, 50), TREES | {"start_trees": 2}),
    Case("trees", "mcrank", Shape(500_000, 10), TREES),
    Case("trees", "mcrank-ordinal", Shape(500_000, 10), TREES),
    Case("linear", "ranksvm", Shape(1_500_000, 10), LINEAR),
    Case("linear", "ranknet", Shape(1_500_000, 10), LINEAR),
    Case("linear", SVM, Shape(1_500_000, 10), LINEAR),
    Case("linear", "rankmm-1", Shape(1_500_000, 10), LINEAR),
    Case("linear", "regression", Shape(3_000_000, 10)),
    Case("linear", "regression", Shape(2_000, 3000)),
    Case("linear", "rsrank", Shape(1_500_000, 10), {"max_iter": 2}),
    Case("linear", "rsrank-sparse", Shape(200_000, 50), {"l1": [0.0, 1e-3], "max_iter": 2}),
    Case("linear", "ndcg-reduction", Shape(20_000, 200), {"n_rounds": 1}),
    Case("dual", "rankmm-1", Shape(1_000_000, 10), DUAL, "stochastic"),
    Case("dual", "rankmm-3", Shape(1_000_000, 10), DUAL, "stochastic"),
    Case("dual", SVM, Shape(40_000, 136, 20), {"solver": "cutting_plane", "max_iter": 4}, "cutting_plane"),
    Case("kernel", KERNEL, Shape(50_000, 20), {"max_iter": 2, "n_landmarks": 100}, "100 landmarks"),
    Case("kernel", KERNEL, Shape(10_000, 20), {"max_iter": 2, "n_landmarks": 600}, "600 landmarks"),
    Case("kernel", KERNEL, Shape(1_500, 20), {"max_iter": 2, "n_landmarks": None}, "exact"),
    Case("net", "neural", Shape(1_000_000, 10), NET),
    Case("net", "neural", Shape(3_200, 136), NET | {"hidden": [2048, 2048]}, "2,048 and 2,048 units"),
    Case("net", "neural", Shape(100_000, 50), NET | {"batch_queries": 1000, "hidden": [256]}, "1,000 queries a step"),
    Case("additive", "rankboost", Shape(300_000, 136), ROUNDS),
    Case("additive", "frank", Shape(300_000, 136), ROUNDS),
    Case("additive", "adarank-ndcg", Shape(1_500_000, 10), {"n_rounds": 2}),
    Case("additive", "coordinate-ascent", Shape(500_000, 10), {"n_restarts": 1, "n_sweeps": 1}),
)
SHORT = ("kernel", "additive")


def measured(case: Case) -> dict[str, Any]:
    """Estimate and peak growth of a case, in this process."""
    import gainful
    from gainful.compute.memory import PeakGrowth
    from gainful.data.size import data_size

    gainful.ranker(case.ranker, **case.params).fit(data_of(case, Shape(500, 8)))  # loads libraries, compiles
    data = data_of(case, case.shape)
    valid = data_of(case, case.shape) if case.valid else None
    model = gainful.ranker(case.ranker, **case.params)
    estimate = model._training_bytes(data_size(data, valid))
    with PeakGrowth() as growth:
        model.fit(data, eval_set=valid, max_bytes="off")
    shape = f"{case.shape.rows:,} × {case.shape.features:,}"
    return {"ranker": case.ranker, "shape": shape, "note": case.note, "estimate": estimate, "peak": growth.bytes}


def data_of(case: Case, shape: Shape) -> Any:
    data = generated(shape)
    if not case.sparse:
        return data
    import numpy as np
    from scipy import sparse

    kept = np.random.default_rng(1).random(data.X.shape, dtype=np.float32) < SPARSE_SHARE
    return data.replace(X=sparse.csr_array(data.X * kept))


def measured_apart(number: int) -> dict[str, Any]:
    """In a process of its own: memory that an earlier fit left to the allocator would hide growth."""
    command = [sys.executable, __file__, "--case", str(number)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def chosen(families: Sequence[str]) -> Iterator[dict[str, Any]]:
    return (measured_apart(number) for number, case in enumerate(CASES) if case.family in families)


def rows() -> Iterator[Row]:
    for found in chosen(SHORT):
        yield Row(
            f"{found['ranker']}, {found['shape']}", "memory", found["peak"] / 1e6,
            "1.43 times the estimate", found["estimate"] / 0.7e6, "MB", wanted=1.0,
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default="trees,linear,dual,kernel,net,additive", help="comma-separated")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="measure one in this process, as JSON")
    given = parser.parse_args()
    if given.case is not None:
        warnings.simplefilter("ignore")
        print(json.dumps(measured(CASES[given.case])))
        return 0
    from gainful.rankers.memory import REFUSED, WARNED

    outside = 0
    print("| ranker | rows × features | | estimate, MB | peak, MB | ratio |\n|---|---:|---|---:|---:|---:|", flush=True)
    for found in chosen(given.families.split(",")):
        ratio = found["estimate"] / found["peak"]
        outside += not WARNED <= ratio <= REFUSED
        sizes = f"{found['estimate'] / 1e6:,.0f} | {found['peak'] / 1e6:,.0f} | {ratio:.2f}"
        print(f"| `{found['ranker']}` | {found['shape']} | {found['note']} | {sizes} |", flush=True)
    return int(outside > 0)


if __name__ == "__main__":
    sys.exit(main())
