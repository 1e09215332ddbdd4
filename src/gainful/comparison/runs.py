"""Train and test one ranker on one fold, and store the result so that a killed comparison can resume."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gainful.blending.leaderboard import Leaderboard
from gainful.comparison.baselines import Baseline
from gainful.comparison.explained import decode_explained, explain_model, is_explained, scores_of
from gainful.comparison.result import Run, leaderboard_of, path_of
from gainful.compute.memory import PeakGrowth
from gainful.compute.threads import share_cores
from gainful.data.checks import skip_checks
from gainful.data.dataset import RankingData
from gainful.data.splits import Split
from gainful.errors import GainfulError
from gainful.metrics import Metric
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.training.monitor import Progress
from gainful.tuning.store import Store, file_name, fingerprint, libraries, version
from gainful.tuning.stored import is_count, is_number, is_time, is_trial
from gainful.tuning.trials import kept_iteration
from gainful.tuning.tune import TuningPlan, base_ranker, search_space


def train_and_test(
    label: str,
    fold: int,
    model: Ranker | Baseline,
    train: RankingData,
    valid: RankingData | None,
    test: RankingData,
    measures: Sequence[Metric],
    progress: Callable[[Progress], object],
    explain_seed: int | None = None,
    alone: bool = True,
) -> Run | None:
    """The result of one ranker, or None if its training was interrupted.

    With ``explain_seed`` the model is explained too, by the first measure; that seed is of the permutations. Unless it
    runs ``alone``, it shares the cores with other rankers, and its memory cannot be told from theirs.
    """
    growth = PeakGrowth()
    with skip_checks(), growth if alone else share_cores():
        trained = not isinstance(model, Baseline) or model.trained_here
        start = time.perf_counter()
        model.fit(train, eval_set=valid, progress=progress)
        fitted = time.perf_counter()
    if model.interrupted_:
        return None
    began = time.perf_counter()
    scores = scores_of(model, test)
    predicted = time.perf_counter()
    return Run(
        label=label,
        fold=fold,
        values={m: np.asarray(m.per_query(scores, test)) for m in dict.fromkeys(measures)},
        fit_seconds=fitted - start if trained else 0.0,
        predict_seconds=predicted - began,
        n_iter=model.n_iter_,
        kept=None if isinstance(model, Baseline) else kept_iteration(model),
        params=plain(model.get_params(deep=False)),
        scores=scores,
        history=plain(model.history_),
        memory=growth.bytes if trained else None,
        trained=trained,
        facts=plain(model._facts() | path_of(model) | leaderboard_of(model)),
        explained=_explain(model, test, measures[0], explain_seed),
    )


def _explain(model: Ranker | Baseline, test: RankingData, measure: Metric, seed: int | None) -> Any:
    """What the report shows of the model; a model that cannot be explained still counts."""
    try:
        return None if seed is None else explain_model(model, test, measure, seed)
    except GainfulError as error:
        warnings.warn(f"{type(model).__name__} is not explained: {error}", stacklevel=2)
        return None


@dataclass(frozen=True)
class Fingerprints:
    """Fingerprints of a fold: of its training and validation data, and of its test data, with the size of that."""

    training: str
    test: str
    test_queries: int
    test_rows: int

    @classmethod
    def of(cls, part: Split) -> Fingerprints:
        test = part.test
        return cls(fingerprint(part.train, part.valid), fingerprint(test), test.n_queries, test.n_rows)


@dataclass
class RunStore:
    """The stored trials of one ranker on one fold (``file``) and its stored result, if there is one (``run``).

    Without ``folder`` and ``fingerprints`` nothing is stored. :meth:`check` refuses a file of other results before
    anything is trained.
    """

    file: Store | None = None
    run: Run | None = None
    of: str = ""
    measures: tuple[Metric, ...] = ()

    @classmethod
    def open(
        cls,
        folder: Path | None,
        label: str,
        fold: int,
        model: Ranker,
        fingerprints: Fingerprints | None,
        plan: TuningPlan | None,
        fixed: Collection[str],
        measures: tuple[Metric, ...],
    ) -> RunStore:
        """The store in ``folder``, or one that stores nothing."""
        if folder is None or fingerprints is None:
            return cls()
        file = Store(folder / file_name(label, f"fold-{fold + 1}"), cls.key(label, model, fingerprints, plan, fixed))
        # Unlike trials, a result also depends on the budget and the test data.
        how = {} if plan is None else plan.to_dict()
        of = fingerprint(fingerprints.test, how, [str(m) for m in measures])
        found = next((i for i, row in enumerate(file.rows) if row.get("of") == of), None)
        if found is None:
            return cls(file, None, of, measures)
        row = file.rows[found]
        if not (_is_run(row, len(measures), fingerprints) and (row["label"], row["fold"]) == (label, fold)):
            file.close()
            raise file.damage(found)
        return cls(file, decode(row, measures), of, measures)

    @classmethod
    def check(
        cls,
        folder: Path,
        label: str,
        fold: int,
        model: Ranker,
        fingerprints: Fingerprints,
        plan: TuningPlan | None,
        fixed: Collection[str],
    ) -> None:
        """Refuse a file that :meth:`open` would refuse."""
        Store.check(folder / file_name(label, f"fold-{fold + 1}"), cls.key(label, model, fingerprints, plan, fixed))

    @staticmethod
    def key(
        label: str, model: Ranker, fingerprints: Fingerprints, plan: TuningPlan | None, fixed: Collection[str]
    ) -> dict[str, Any]:
        """What the stored results belong to."""
        if plan is not None:
            base = base_ranker(model, plan.metric, fixed)
            search = plan.make_search(base, search_space(model, None, fixed))
            return plan.key(label, base, search, fingerprints.training)
        return {
            "version": version(),
            "libraries": libraries(),
            "data": fingerprints.training,
            "ranker": fingerprint(label, type(model).__name__, model.get_params(deep=False)),
        }

    def keep(self, run: Run | None) -> Run | None:
        """Store a result. Returns it as it would be read, so that a resumed comparison gives the same."""
        if run is None or self.file is None:
            return run
        row = json.loads(json.dumps(encode(run, self.measures)))
        self.file.append({"kind": "run", "of": self.of, **row})
        return decode(row, self.measures)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.file is not None:
            self.file.close()


def encode(run: Run, measures: Sequence[Metric]) -> dict[str, Any]:
    """A run as JSON values; numbers survive exactly, NaN included."""
    row = {one.name: getattr(run, one.name) for one in fields(run) if one.name not in ("values", "scores")}
    return {
        **plain(row),
        "values": [np.asarray(run.values[m], dtype=np.float64).tolist() for m in measures],
        "scores": None if run.scores is None else np.asarray(run.scores, dtype=np.float64).tolist(),
    }


def decode(row: Mapping[str, Any], measures: Sequence[Metric]) -> Run:
    """The run that :func:`encode` wrote."""
    given = {one.name: row[one.name] for one in fields(Run) if one.name in row}
    given["values"] = {m: np.asarray(v, dtype=np.float64) for m, v in zip(measures, row["values"], strict=True)}
    given["explained"] = decode_explained(row.get("explained"))
    given["scores"] = None if row["scores"] is None else np.asarray(row["scores"], dtype=np.float64)
    return Run(**given)


def _is_run(row: Mapping[str, Any], n_measures: int, sizes: Fingerprints) -> bool:
    """Whether a stored line has all that a comparison reads of a run, in the sizes of the test data."""
    values, scores = row.get("values"), row.get("scores")
    return is_explained(row.get("explained")) and (
        all(name in row and check(row[name]) for name, check in RUN_CHECKS.items())
        and isinstance(values, list)
        and len(values) == n_measures
        and all(_are_numbers(one, sizes.test_queries) for one in values)
        and (scores is None or _are_numbers(scores, sizes.test_rows))
    )


def _are_numbers(values: Any, n: int) -> bool:
    """``n`` finite numbers, or NaN where a metric is undefined."""
    return isinstance(values, list) and len(values) == n and all(is_number(v) or v != v for v in values)


def _is_history(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, dict) and all(one is None or isinstance(one, str | int | float) for one in row.values())
        for row in value
    )


def _is_leaderboard(value: Any) -> bool:
    try:
        return value is None or bool(Leaderboard.from_dict(value))
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


RUN_CHECKS: dict[str, Callable[[Any], bool]] = {
    "label": lambda value: isinstance(value, str),
    "fold": is_count,
    "fit_seconds": is_time,
    "predict_seconds": is_time,
    "n_iter": is_count,
    "kept": lambda value: value is None or is_count(value),
    "params": lambda value: isinstance(value, dict),
    "history": _is_history,
    "memory": lambda value: value is None or is_count(value),
    "facts": lambda value: isinstance(value, dict) and _is_leaderboard(value.get("leaderboard")),
    "trials": lambda value: isinstance(value, list) and all(map(is_trial, value)),
    "chosen": lambda value: value is None or isinstance(value, dict),
    "workers": lambda value: value is None or is_count(value),
}
