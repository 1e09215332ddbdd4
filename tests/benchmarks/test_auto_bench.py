"""Tables of ``auto`` beside its peers: figures of folds add up to those of all queries."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import auto.run as bench


def test_folds_add_up_and_later_runs_go_on(tmp_path, rng):
    peer = bench.PEERS[0].name
    values = {system: [rng.random(n) for n in (30, 20, 25)] for system in ("auto", peer)}
    folder = tmp_path / "120s"
    folder.mkdir()
    for system, folds in values.items():
        for i, one in enumerate(folds):
            bench.cell_file(folder, "mq2007", i, system).write_text(json.dumps({"values": one.tolist()}))
    found = bench.results_of(tmp_path)
    d = np.concatenate(values["auto"]) - np.concatenate(values[peer])
    error = d.std(ddof=1) / np.sqrt(len(d))
    shown = f"{d.mean():+.4f}" if abs(d.mean() / error) <= 2 else f"**{d.mean():+.4f}**"
    means = [np.concatenate(values[system]).mean() for system in (peer, "auto")]
    row = f"| {peer} | {means[0]:.4f} | {means[1]:.4f} | {shown} | {error:.4f} | 3 of 5 |"
    assert row in bench.table("mq2007 120", found["mq2007 120"])
    # what was measured elsewhere stays, unless its folds are measured again
    elsewhere = {
        "mq2007 120": {peer: {"1-2": [50, 0.4, 0.0, 0.1], "5": [9, 0.4, 0.0, 0.1]}, "other": {"1": [9, 0, 0, 1]}}
    }
    together = bench.merge(elsewhere, found)
    assert sorted(together["mq2007 120"][peer]) == ["1", "2", "3", "5"]
    assert "other" in together["mq2007 120"]


def test_differences_are_those_of_the_auto_of_now():
    old = {
        "mq2007 120": {"a": {"1-2": [50, 0.4, 0.01, 0.1], "3": [9, 0.4, 0.0, 0.1]}},
        "mslr 120": {"a": {"1": [9, 0, 0, 1]}},
    }
    new = bench.renew(old, {"mq2007 120": {1: (30, 0.5), 2: (20, 0.6)}})
    assert new["mq2007 120"]["a"] == {"1-2": [50, 0.4, 0.14, 0.1, 1.0], "3": [9, 0.4, 0.0, 0.1]}
    assert new["mslr 120"] == {"a": {"1": [9, 0, 0, 1]}}
    assert "≈" in bench.table("mq2007 120", new["mq2007 120"])
    assert "≈" not in bench.table("mslr 120", new["mslr 120"])
