"""Tests of all kinds again under the rules of other systems, in a process that has them from its start.

``pytest --rules windows FILES`` does it for any tests. Rules are not the system: what holds here was not run there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
EVERYWHERE = (
    "formats/test_binary.py",
    "formats/test_sidecars.py",
    "tuning/test_store.py",
    "demo/test_experiment.py",
    "cli/test_cli_baselines.py",
)
SELECTED = {
    "windows": ("platforms/on_windows.py", "formats/test_files.py", *EVERYWHERE),
    "macos": ("platforms/on_macos.py", *EVERYWHERE),
}


@pytest.mark.parametrize("system", SELECTED)
def test_under_the_rules_of(system):
    command = [sys.executable, "-m", "pytest", "--rules", system, "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += [
        "-k",
        "not flipped and not cut_is_refused and not type_and_walk and not page_scores",
    ]  # dear, and the same on every system
    done = subprocess.run([*command, *(TESTS / name for name in SELECTED[system])], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
