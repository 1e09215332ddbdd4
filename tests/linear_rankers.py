"""Linear rankers and the settings with which tests train them quickly."""

from __future__ import annotations

from typing import Any

LINEAR: dict[str, dict[str, Any]] = {
    "regression": {},
    "linear": {"loss": "squared"},
    "ranksvm": {},
    "ranknet": {},
    "listnet": {},
    "lambdarank": {"max_iter": 30},
    "softrank": {"max_iter": 20},
    "structured-svm": {"C": 10.0},
    "structured-svm-tight": {},
    "structured-svm-slack": {"max_iter": 60},
    "svmmap": {"metric": "map(relevant=3)", "C": 10.0},
    "rankmm-1": {},
    "rankmm-2": {},
    "rankmm-3": {},
}
