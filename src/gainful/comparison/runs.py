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

from gainful.comparison.result import Run, path_of
from gainful.compute.memory import PeakGrowth
from gainful.data.checks import skip_checks
from gainful.data.dataset import RankingData
from gainful.data.splits import Split
from gainful.errors import InterruptedFitWarning
from gainful.metrics import Metric
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.training.monitor import Progress
from gainful.tuning.store import Store, file_name, fingerprint, libraries, version
from gainful.tuning.tune import TuningPlan, base_ranker, search_space


def train_and_test(
    label: str,
    fold: int,
    model: Ranker,
    train: RankingData,
    valid: RankingData | None,
    test: RankingData,
    measures: Sequence[Metric],
    progress: Callable[[Progress], object],
) -> Run | None:
    """The result of one ranker, or None if its training was interrupted."""
    with warnings.catch_warnings(), skip_checks(), PeakGrowth() as growth:
        warnings.simplefilter("ignore", InterruptedFitWarning)
        start = time.perf_counter()
        model.fit(train, eval_set=valid, progress=progress)
        fitted = time.perf_counter()
    if model.interrupted_:
        return None
    began = time.perf_counter()
    scores = model.predict(test)
    predicted = time.perf_counter()
    return Run(
        label=label,
        fold=fold,
        values={m: np.asarray(m.per_query(scores, test)) for m in dict.fromkeys(measures)},
        fit_seconds=fitted - start,
        predict_seconds=predicted - began,
        n_iter=model.n_iter_,
        params=plain(model.get_params(deep=False)),
        scores=scores,
        history=plain(model.history_),
        memory=growth.bytes,
        facts=plain(model._facts() | path_of(model)),
    )


@dataclass(frozen=True)
class Fingerprints:
    """Fingerprints of a fold: of its training and validation data, and of its test data."""

    training: str
    test: str

    @classmethod
    def of(cls, part: Split) -> Fingerprints:
        return cls(fingerprint(part.train, part.valid), fingerprint(part.test))


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
        try:
            run = None if found is None else decode(file.rows[found], measures)
            if run is not None and (run.label, run.fold) != (label, fold):
                raise ValueError("the result of another fold")
        except (LookupError, TypeError, ValueError):
            file.close()
            raise file.damage(found or 0) from None
        return cls(file, run, of, measures)

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
    given["scores"] = None if row["scores"] is None else np.asarray(row["scores"], dtype=np.float64)
    return Run(**given)
