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
    errors = json.loads(done.stdout)
    assert len(errors) == 40
    assert {name: error for name, error in errors.items() if not error < 1e-13} == {}
