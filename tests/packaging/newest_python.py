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
        tuple(map(int, path.parents[1].name.split("."))): path
        for path in root.glob("3.*/bin/python")
        if re.fullmatch(r"3\.\d+\.\d+", path.parents[1].name)
    }
    for minor in range(MOST, LEAST - 1, -1):
        if path := which(f"python3.{minor}"):
            yield path
        yield from (str(by_version[version]) for version in sorted(by_version, reverse=True) if version[1] == minor)


FITS = """
import ensurepip, sys, sysconfig, venv
sys.exit(sys.version_info.releaselevel != "final" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
"""


def fits(python: str) -> bool:
    """Whether it is a release that can make environments, with the lock that most packages are built for.

    Not so a shim of pyenv whose version is not switched on, and Debian's without python3-venv.
    """
    return subprocess.run([python, "-c", FITS], capture_output=True).returncode == 0


if __name__ == "__main__":
    print(next(filter(fits, candidates()), sys.executable))
