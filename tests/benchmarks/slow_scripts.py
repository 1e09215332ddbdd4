"""Tests that run a script of benchmarks/ for long, and prove nothing of the package, wait for ``make test-slow``."""

from __future__ import annotations

import os

import pytest

SLOW = "GAINFUL_SLOW" in os.environ
slow = pytest.mark.skipif(not SLOW, reason="runs a script of benchmarks/: make test-slow")
