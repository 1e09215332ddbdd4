"""Print the newest Python on the path or of pyenv that can make environments, for ``make test-newest``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

LEAST = 11  # of Python 3
MOST = 99


def candidates() -> Iterator[str]:
    """Commands and paths, the newest first."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    by_version = {
        tuple(map(int, re.findall(r"\d+", path.parents[1].name))): path for path in root.glob("3.*/bin/python")
    }
    for minor in range(MOST, LEAST - 1, -1):
        if path := which(f"python3.{minor}"):
            yield path
        yield from (str(by_version[version]) for version in sorted(by_version, reverse=True) if version[1] == minor)


def can_make_environments(python: str) -> bool:
    """Also false for a shim of pyenv whose version is not switched on, and for Debian without python3-venv."""
    return subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0


if __name__ == "__main__":
    print(next(filter(can_make_environments, candidates()), sys.executable))
