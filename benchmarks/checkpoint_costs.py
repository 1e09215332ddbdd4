"""What a checkpoint costs: seconds and bytes of one write, against the seconds of a tree or an epoch, and of resuming.

Prints one JSON line per ranker. Run as: python benchmarks/checkpoint_costs.py [QUERIES]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import gainful

RANKERS: dict[str, dict[str, Any]] = {
    "lambdamart": {"n_trees": 200, "n_jobs": 1},
    "mcrank": {"n_trees": 60, "n_jobs": 1},
    "lambdarank-net": {"epochs": 6, "hidden": (256, 128), "device": "cpu"},
}


class Timed(gainful.Checkpoint):
    """A checkpoint that records what its writes took."""

    def __init__(self, path: Path, every: float):
        super().__init__(path, every)
        self.spent: list[float] = []
        self.bytes = 0

    def save(self, state: Any) -> None:
        began = time.perf_counter()
        super().save(state)
        self.spent.append(time.perf_counter() - began)
        self.bytes = self.path.stat().st_size


def row(name: str, settings: dict[str, Any], data: gainful.RankingData, folder: Path) -> dict[str, Any]:
    """One training, stopped at its last iteration, and what it takes to get back there."""
    total = settings.get("n_trees", settings.get("epochs"))
    checkpoint = Timed(folder / f"{name}.ckpt", every=1e9)
    stopped = gainful.ranker(name, **settings).fit(
        data, checkpoint=checkpoint, progress=lambda event: event.iteration == total - 1
    )
    each = stopped.history_[-1]["seconds"] / (total - 1)
    began = time.perf_counter()
    gainful.ranker(name, **settings).fit(data, checkpoint=checkpoint)
    again = time.perf_counter() - began
    return {
        "ranker": name,
        "rows": data.n_rows,
        "iterations": total,
        "seconds per iteration": round(each, 4),
        "seconds per write": round(checkpoint.spent[0], 4),
        "megabytes": round(checkpoint.bytes / 1e6, 2),
        "seconds to resume and do the last iteration": round(again, 2),
        "seconds of the training": round(stopped.history_[-1]["seconds"], 2),
    }


def main(n_queries: int) -> None:
    warnings.simplefilter("ignore")
    data = gainful.make_artificial(n_queries, n_docs=100, n_features=50, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in RANKERS.items():
            print(json.dumps(row(name, settings, data, Path(folder))), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
