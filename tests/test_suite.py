"""The suite itself: its order is that of a seed, and a module that leaves something running fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
ROOT = Path(__file__).parents[1]
MARK = "mark." + "cluster"
LEAVES = {
    "thread": "threading.Thread(target=threading.Event().wait, args=(60,), daemon=True).start()",
    "process": "globals().update(child=subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE))",
    "nothing": "pass",
}


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    text, n = re.subn(r"^GRACE = .*$", "GRACE = 0.5", CONFTEST.read_text(), flags=re.MULTILINE)
    assert n == 1
    (folder / "conftest.py").write_text(text)
    shutil.copy(CONFTEST.with_name("browser.py"), folder)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", *options, str(folder)]
    quick = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the conftest needs none, and they are slow to load
    return subprocess.run(command, cwd=folder, env=quick, capture_output=True, text=True)


@pytest.mark.parametrize("what", LEAVES)
def test_what_is_left_running_fails_its_module(what, tmp_path):
    code = f"import subprocess, sys, threading\ndef test_it():\n    {LEAVES[what]}\n"
    (tmp_path / "test_leaving.py").write_text(code)
    done = run_pytest(tmp_path, "-W", "ignore")
    assert ("still running" in done.stdout) == (what != "nothing"), done.stdout
    assert done.returncode == (0 if what == "nothing" else 1), done.stdout


def test_a_seed_settles_the_order(tmp_path):
    code = (
        "import pytest\n"
        "@pytest.mark.parametrize('i', range(20), ids=lambda i: ('even', 'odd')[i % 2] + str(i))\n"
        "def test_it(i):\n    pass\n"
    )
    (tmp_path / "test_many.py").write_text(code)

    def order(seed, *options):
        told = run_pytest(tmp_path, "--collect-only", "--seed", seed, *options).stdout
        assert f"repeat it with --seed {seed}" in told
        return [line for line in told.splitlines() if "<Function" in line]

    whole = order("1")
    assert len(whole) == 20
    assert order("1", "-k", "odd") == [one for one in whole if "[odd" in one], "fewer tests keep their order"
    assert order("2") != whole


def test_make_looks_for_cluster_tests_where_they_are():
    """Only there, so that one process need not collect all the others."""
    named = re.search(r"^CLUSTER := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    found = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py") if MARK in path.read_text()}
    assert found
    assert [path for path in found if not any(path.is_relative_to(one) for one in named)] == []
