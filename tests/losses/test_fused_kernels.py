"""The kernels that a GPU runs give the numbers of the compiled losses and of PyTorch, here by Triton's interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")


def test_fused_kernels_equal_what_they_stand_for():
    script = Path(__file__).with_name("fused_kernels.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 2 * (7 * 4 + 4) + 4 * 3 + 3 * 2
    assert {name: error for name, (error, limit) in found.items() if not error < limit} == {}
