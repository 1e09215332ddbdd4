"""Run every benchmark in this folder, print one table of ratios and save them as JSON.

``python benchmarks/run.py [NAME …]`` runs the files whose name contains one of the words; without any, all files.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
PACKAGES = ("gainful", "numpy", "scipy", "scikit-learn", "numba", "lightgbm", "pyarrow", "pytrec-eval-terrier")


def run_file(path: Path, console: Console) -> list[dict] | None:
    """The rows of one benchmark, run in its own process so that no file warms another's caches; None if it failed.

    A benchmark that lacks an extra says so and has no rows.
    """
    with console.status(f"{path.name} …"):
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=HERE)
    if done.returncode != 0:
        console.print(f"[red]{path.name} failed:[/red]\n{done.stderr}")
        return None
    if done.stderr and not done.stdout:
        console.print(done.stderr.strip())
    return [json.loads(line) | {"file": path.name} for line in done.stdout.splitlines() if line.startswith("{")]


def table_of(rows: list[dict]) -> Table:
    table = Table(title="gainful beside its peers, same run, same machine (above 1× is better)")
    for name in ("benchmark", "measure", "gainful", "peer", "peer's", "ratio", "target"):
        table.add_column(name, justify="left" if name in ("benchmark", "measure", "peer") else "right")
    for row in rows:
        missed = row["wanted"] is not None and row["ratio"] < row["wanted"]
        table.add_row(
            row["subject"],
            row["measure"],
            f"{row['ours']:.4g} {row['unit']}",
            row["peer"],
            f"{row['theirs']:.4g} {row['unit']}",
            f"[{'red' if missed else 'green'}]{row['ratio']:.2f}×[/]",
            "" if row["wanted"] is None else f"≥ {row['wanted']:g}×",
        )
    return table


def main() -> int:
    console = Console(width=None if sys.stdout.isatty() else 150)
    words = sys.argv[1:]
    files = [f for f in sorted(HERE.glob("bench_*.py")) if not words or any(word in f.name for word in words)]
    if not files:
        console.print(f"no benchmark matches {' '.join(words)}")
        return 2
    found = [run_file(path, console) for path in files]
    rows = [row for part in found if part is not None for row in part]
    console.print(table_of(rows))
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    target = results / f"{stamp}.json"
    target.write_text(
        json.dumps(
            {
                "when": stamp,
                "python": platform.python_version(),
                "machine": platform.machine(),
                "versions": {name: metadata.version(name) for name in PACKAGES},
                "rows": rows,
            },
            indent=1,
        )
    )
    console.print(f"saved to {target}")
    missed = [row for row in rows if row["wanted"] is not None and row["ratio"] < row["wanted"]]
    return 1 if missed or None in found else 0


if __name__ == "__main__":
    sys.exit(main())
