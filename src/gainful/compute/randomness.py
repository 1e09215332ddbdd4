"""Seeds from what scikit-learn takes as ``random_state``."""

from __future__ import annotations

from typing import Any

import numpy as np


def seed_from(random_state: Any) -> int:
    """An integer below 2^31 − 1: of the number or generator given, or a fresh one for None."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31 - 1))
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    return int(random_state) % (2**31 - 1)
