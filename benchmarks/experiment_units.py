"""Do the units of features matter? NDCG@10 of every linear ranker, kernel and net, with features as given and spoiled.

Spoiled: each feature is multiplied by its own factor between 1e-3 and 1e4, the same for training and test queries.
Nothing else changes, so a ranker whose two columns differ depends on the units.

``python benchmarks/experiment_units.py`` runs on the data of the tutorial; with ``--ohsumed DIR`` also on the five
folds of OHSUMED (LETOR 3.0), with ``--letor FILE`` on any file, split by query. All rankers have default parameters,
and nothing is chosen on the validation queries.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import gainful
from gainful.formats.layout import read_splits

KINDS = ("linear", "kernel", "net")
TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"


def tutorial() -> gainful.RankingData:
    """The CSV that the first block of the tutorial writes."""
    block = re.search(r"```python\n(import csv.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert block is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.csv"
        exec(block[1].replace('"shop.csv"', repr(str(file))), {})
        return gainful.read(file)


def spoiled(split: gainful.Split, seed: int) -> gainful.Split:
    """Each feature times its own factor."""
    factors = 10.0 ** np.random.default_rng(seed).uniform(-3.0, 4.0, split.train.n_features)
    parts = (split.train, split.valid, split.test)
    return gainful.Split(*(part.replace(X=np.asarray(part.X, dtype=np.float64) * factors) for part in parts))


def mean_ndcg(name: str, splits: Sequence[gainful.Split]) -> tuple[float, float]:
    """NDCG@10 of the validation and of the test queries, means over the splits; training sees neither."""
    values = []
    for split in splits:
        model = gainful.ranker(name, **({"device": "cpu"} if gainful.RANKERS[name].kind == "net" else {}))
        model.fit(split.train)
        values.append([model.score(split.valid), model.score(split.test)])
    valid, test = np.mean(values, axis=0).tolist()
    return valid, test


def table(title: str, splits: Sequence[gainful.Split], names: Sequence[str], seed: int) -> None:
    print(f"\n{title}\n\n| ranker | as given | spoiled | difference | validation, as given | seconds |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    other = [spoiled(split, seed) for split in splits]
    for name in names:
        began = time.process_time()
        (valid, given), (_, changed) = mean_ndcg(name, splits), mean_ndcg(name, other)
        seconds = time.process_time() - began
        figures = f"{given:.4f} | {changed:.4f} | {changed - given:+.4f} | {valid:.4f} | {seconds:.1f}"
        print(f"| {name} | {figures} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ohsumed", help="folder of OHSUMED with Fold1 … Fold5")
    parser.add_argument("--letor", help="a file in LETOR's format")
    parser.add_argument("--rankers", help="comma-separated names; default: all linear rankers, kernels and nets")
    parser.add_argument("--seed", type=int, default=0, help="seed of the factors")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    every = [name for name, entry in gainful.RANKERS.items() if entry.kind in KINDS and entry.installed]
    names = arguments.rankers.split(",") if arguments.rankers else every
    seed = arguments.seed
    table("The tutorial's data", [gainful.Split(*gainful.split(tutorial(), (0.6, 0.2, 0.2), seed=1))], names, seed)
    if arguments.ohsumed:
        table("OHSUMED, mean of the folds", read_splits(arguments.ohsumed), names, seed)
    if arguments.letor:
        data = gainful.read(arguments.letor)
        table(arguments.letor, [gainful.Split(*gainful.split(data, (0.6, 0.2, 0.2), seed=1))], names, seed)


if __name__ == "__main__":
    main()
