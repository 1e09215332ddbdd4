"""``python -m fuzz``: run cases, replay failures that were kept, cut them to their core."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.commands import cut, extract, replay, run

FOUND = Path(__file__).parent / "found"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz everything that gainful reads.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="run cases and print a table; exit code 1 if any failed")
    one.add_argument("--minutes", type=float, help="how long; every format gets an equal share")
    one.add_argument("--cases", type=int, help="how many of each format, instead of minutes")
    one.add_argument("--formats", help="some of the formats, separated by commas; by default all")
    one.add_argument("--seed", type=int, default=0, help="the same seed gives the same cases")
    one.add_argument("--jobs", type=int, default=2, help="processes")
    one.add_argument("--found", type=Path, default=FOUND, help="folder where failures are kept")
    one = commands.add_parser("replay", help="run cases that were kept; exit code 1 if any fails")
    one.add_argument("files", type=Path, nargs="+")
    one.add_argument("--here", action="store_true", help="in this process, without limits, with the traceback")
    one = commands.add_parser("cut", help="remove what the failure does not need; writes FILE.cut")
    one.add_argument("file", type=Path)
    one = commands.add_parser("extract", help="write the input that a file holds")
    one.add_argument("file", type=Path)
    one.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "run":
        names = None if given.formats is None else given.formats.split(",")
        return run(names, given.seed, given.cases, given.minutes, given.jobs, given.found)
    if given.command == "replay":
        return replay(given.files, given.here)
    if given.command == "cut":
        return cut(given.file)
    return extract(given.file, given.output)


if __name__ == "__main__":
    sys.exit(main())
