"""The trees in LightGBM's model text: one line of numbers per property, and how a split decides.

``decision_type`` packs what a split does: bit 0 categories, bit 1 missing values go left, bits 2 and 3 what counts as
missing (0 nothing: NaN is read as 0; 1 zero and NaN; 2 NaN).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CATEGORICAL, DEFAULT_LEFT = 1, 2
NEVER, ZERO, NAN = 0, 1, 2  # what a split counts as missing
ZERO_BAND = float(np.float32(1e-35))  # when scoring, LightGBM treats values closer to 0 as 0


def tree_sections(text: str) -> Iterator[dict[str, str]]:
    """``name=value`` lines of each tree, in training order."""
    body = text.partition("\nend of trees")[0]
    for part in body.split("\nTree=")[1:]:
        yield dict(line.split("=", 1) for line in part.splitlines()[1:] if "=" in line)


def numbers_of(lines: dict[str, str], name: str, kind: type = np.int64) -> np.ndarray:
    """The numbers of one property, none if the tree lacks it."""
    return np.array(lines.get(name, "").split(), dtype=kind)
