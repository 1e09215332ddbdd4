"""gainful beside its peers: learning curves of every ranker, each trained in its own process.

``python benchmarks/peers/run.py`` measures all three data sets and writes docs/results/peers.md, peers.json and one
plot per data set. ``--data artificial`` measures one and keeps the others' figures; ``--threads 1`` has tables of its
own beside those of two threads. Measurements are saved in
benchmarks/results/peers/, so that a stopped run resumes; those that failed, or were taken while the machine was busy,
are repeated; ``--fresh`` starts over. ``GAINFUL_OHSUMED=DIR`` uses OHSUMED's own folds in place of OHSUMED's shape.
``make bench-peers`` creates the environment first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(HOME)  # peers is a package; its folder must not be on the module path

from peers import plots, report  # noqa: E402
from peers.contestants import CONTESTANTS, REFERENCE, Contestant  # noqa: E402
from peers.datasets import SIZES, DataSet, measure, ohsumed_folder  # noqa: E402

PACKAGES = ("gainful", "lightgbm", "xgboost-cpu", "catboost", "scikit-learn", "fastrank", "pyltr", "numpy", "numba")
STARTING = 120.0  # seconds for imports, data and measuring quality, on top of the training
BUSY = 1.25  # times the best pace
USUAL = {"threads": 2, "repeats": 3, "clock": "wall"}
SHARED = 8  # how much slower a process may be on a shared machine


def job(one: Contestant, data: DataSet, size: str, given: argparse.Namespace) -> dict[str, Any]:
    """The result of one contestant, or why there is none; a crash or a hang ends only its own process."""
    if not one.installed:
        return {"failed": "not installed"}
    command = [sys.executable, "-m", "peers.worker", size, data.name, one.key, "--threads", str(given.threads),
               "--repeats", str(given.repeats)]  # fmt: skip
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(given.threads)), "PEERS_CLOCK": given.clock}
    # Trainings of growing size take about three times the largest in total, and may all be repeated, on each fold.
    folds = 5 if data.name == "ohsumed" and ohsumed_folder() else 1
    limit = STARTING + 3 * folds * (given.repeats + 1) * data.seconds * (SHARED if given.clock == "cpu" else 1)
    try:
        done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"stopped after {limit:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        why = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"failed": why[-1]}
    return json.loads(lines[-1])


def measured(data: DataSet, size: str, given: argparse.Namespace) -> dict[str, Any]:
    """All contestants on one data set; those already measured under the same settings come from the file."""
    real = bool(ohsumed_folder()) and data.name == "ohsumed"
    settings = {"data": repr(data), "real": real, "threads": given.threads, "repeats": given.repeats,
                "clock": given.clock, "code": text_of("datasets.py", "settings.py", "snapshots.py")}  # fmt: skip
    store = given.kept / f"{size}-{key_of(data, given)}.json"
    known = json.loads(store.read_text()) if store.exists() and not given.fresh else {}
    if known.get("settings") != settings:
        known = {"settings": settings, "results": {}, "when": time.strftime("%Y-%m-%d")}
    for one in chosen(size, given.only):
        spec = f"{one!r} {text_of(f'adapters/{one.maker}.py')}"
        last = known["results"].get(one.key, {})
        settled = last.get("spec") == spec and "failed" not in last
        if settled and one.name not in busy(known["results"].values(), given.clock):
            continue
        start = time.perf_counter()
        found = job(one, data, size, given)
        outcome = found.get("failed") or _summary(found)
        print(f"{data.name:10}  {one.name:34}  {outcome}  [{time.perf_counter() - start:.0f} s]", flush=True)
        if found.get("failed") != "not installed":  # it may be installed by the next run
            known["results"][one.key] = {**found, "spec": spec}
            known["when"] = time.strftime("%Y-%m-%d")
            store.parent.mkdir(parents=True, exist_ok=True)
            store.write_text(json.dumps(known))
        else:
            known["results"][one.key] = found
    return {**entry_of(data, known, real), "command": command_of(size, given)}


def key_of(data: DataSet, given: argparse.Namespace) -> str:
    """Its name in files: that of the data set, with the number of threads if there are several."""
    return data.name if given.threads == 1 else f"{data.name}-{given.threads}"


def text_of(*names: str) -> str:
    """A short hash of these files: figures taken with other code are not comparable."""
    text = b"".join((HOME / "peers" / name).read_bytes() for name in names)
    return hashlib.sha256(text).hexdigest()[:12]


def busy(results: Iterable[dict[str, Any]], clock: str) -> set[str]:
    """Those measured on a busy machine, where a fixed piece of work took over a quarter longer."""
    paces = {r["name"]: r["pace"] for r in results if "pace" in r}
    if clock == "cpu" or not paces:
        return set()
    return {name for name, pace in paces.items() if pace > BUSY * min(paces.values())}


def _summary(found: dict[str, Any]) -> str:
    last = found["curve"]["points"][-1]
    return f"{last[0]:5} iterations, {last[1]:8.3f} s, NDCG@10 {last[3]:.4f}, {found['added_mib']:8.1f} MiB"


def chosen(size: str, only: list[str]) -> list[Contestant]:
    wanted = [one for one in CONTESTANTS if size != "smoke" or one.smoke]
    if not only:
        return wanted
    return [one for one in wanted if one.name in REFERENCE.values() or any(word in one.key for word in only)]


def entry_of(data: DataSet, known: dict[str, Any], real: bool) -> dict[str, Any]:
    """What the report needs about a data set."""
    names = {one.key: one.name for one in CONTESTANTS}
    results = {key: known["results"][key] for key in names if key in known["results"]}
    return {
        "title": "OHSUMED" if real else data.title,
        "rows": "the mean over its five folds" if real else data.rows,
        "metric": str(measure(data)),
        "iterations": data.iterations,
        "seconds": data.seconds,
        "threads": known["settings"]["threads"],
        "clock": known["settings"]["clock"],
        "busy": sorted(busy(results.values(), known["settings"]["clock"])),
        "when": known["when"],
        "results": [{k: v for k, v in r.items() if k != "spec"} for r in results.values() if "failed" not in r],
        "failed": {names[key]: r["failed"] for key, r in results.items() if "failed" in r},
    }


def write_report(entries: dict[str, Any], size: str, given: argparse.Namespace) -> None:
    """The page, the figures and the plots; what was not measured in this run keeps its entry of the last report."""
    store = given.out / "peers.json"
    before = json.loads(store.read_text())["data"] if store.exists() else {}
    data = {**before, **entries}
    kept = {
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "cores": os.cpu_count(),
        "versions": {name: metadata.version(name) for name in PACKAGES if _there(name)},
        "data": {key: data[key] for one in SIZES["usual"] for key in sorted(data) if key.partition("-")[0] == one.name},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    for name, entry in kept["data"].items():
        groups = report.groups_of(entry)
        times = {group: report.reference(entry, group).seconds for group in groups}
        (given.out / f"peers-{name}.svg").write_text(plots.picture(report.title_of(entry), groups, times))
    store.write_text(in_lines(rounded(kept)) + "\n")
    (given.out / "peers.md").write_text(report.page(kept))
    print(f"written: {given.out / 'peers.md'}")


def command_of(size: str, given: argparse.Namespace) -> str:
    """The command that repeats this run."""
    options = [] if size == "usual" else [f"--{size}"]
    options += [f"--{name} {value}" for name, usual in USUAL.items() if (value := getattr(given, name)) != usual]
    return "make bench-peers" + (f" BENCH='{' '.join(options)}'" if options else "")


def in_lines(value: Any) -> str:
    """JSON with one line per point of a curve."""
    return re.sub(
        r"\[\s+([^][{}]+?)\s+\]", lambda inner: f"[{' '.join(inner[1].split())}]", json.dumps(value, indent=1)
    )


def rounded(value: Any) -> Any:
    """Figures rounded to six digits, which are enough."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def _there(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [one.name for one in SIZES["usual"]]
    parser.add_argument("--data", action="append", choices=names, help="one data set (repeatable); default: all")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="rankers whose name contains this")
    parser.add_argument("--full", action="store_true", help="MSLR-WEB's shape with 720,000 rows")
    parser.add_argument("--smoke", action="store_true", help="a few rankers on a few rows, as a check that all works")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--clock", choices=("wall", "cpu"), help="cpu: for a shared machine")
    parser.add_argument("--repeats", type=int, help="repeats of short trainings; the median counts")
    parser.add_argument("--out", type=Path, help="folder of the report; default: docs/results")
    parser.add_argument("--kept", type=Path, default=HOME / "results" / "peers", help="folder of the measurements")
    parser.set_defaults(**USUAL)
    given = parser.parse_args()
    if given.clock == "cpu" and given.threads != 1:
        parser.error("--clock cpu adds up the time of all threads; add --threads 1")
    size = "smoke" if given.smoke else "full" if given.full else "usual"
    if given.out is None:  # the figures of a smoke run are meaningless and not for the documentation
        given.out = given.kept / "smoke" if given.smoke else HOME.parent / "docs" / "results"
    wanted = [one for one in SIZES[size] if not given.data or one.name in given.data]
    entries = {key_of(one, given): measured(one, size, given) for one in wanted}
    write_report({name: entry for name, entry in entries.items() if report.groups_of(entry)}, size, given)
    broken = [f"{who} ({why})" for e in entries.values() for who, why in e["failed"].items() if why != "not installed"]
    if broken:
        print(f"failed: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
