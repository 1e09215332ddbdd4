"""Values that JSON can represent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """``value`` with NumPy scalars as numbers, arrays as lists, metrics and other values as text, NaN as null."""
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if type(value).__name__ == "RandomState":
        return None  # a generator's state is not a setting
    return str(value)
