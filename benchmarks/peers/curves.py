"""Learning curves, and what they tell: quality at a given time, time to a given quality. Nothing here trains.

A curve holds points (iterations, seconds, validation NDCG, test NDCG). The current model at any time is the best so far
on validation, as early stopping would keep it; its test NDCG is the quality at that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, median
from typing import Any, NamedTuple


class Point(NamedTuple):
    iterations: int
    seconds: float
    valid: float
    test: float


@dataclass(frozen=True)
class Curve:
    """Points by increasing iterations; ``final`` if more iterations would change nothing."""

    points: tuple[Point, ...]
    final: bool = False

    def kept(self) -> list[tuple[float, float]]:
        """(seconds, test NDCG of the current model): a point whenever it changes, and the last one.

        Separate trainings may take less time for more iterations; the current model is one of those finished by
        then.
        """
        found: list[tuple[float, float]] = []
        best = -inf
        for point in sorted(self.points, key=lambda p: (p.seconds, p.iterations)):
            if point.valid > best:
                best = point.valid
                if found and found[-1][0] == point.seconds:
                    found.pop()
                found.append((point.seconds, point.test))
        if self.points and found[-1][0] < (end := max(p.seconds for p in self.points)):
            found.append((end, found[-1][1]))
        return found

    def quality_at(self, seconds: float) -> float | None:
        """Test NDCG of the current model at this time; None if nothing is finished yet."""
        reached = [test for at, test in self.kept() if at <= seconds]
        return reached[-1] if reached else None

    def valid_at(self, seconds: float) -> float | None:
        """Validation NDCG of the current model at this time; None if nothing is finished yet."""
        return max((point.valid for point in self.points if point.seconds <= seconds), default=None)

    def time_to(self, quality: float) -> float | None:
        """The first time at which the current model reaches this quality; None if it never does."""
        return next((at for at, test in self.kept() if test >= quality), None)

    def time_to_valid(self, quality: float) -> float | None:
        """The same on validation data."""
        return min((point.seconds for point in self.points if point.valid >= quality), default=None)

    def seconds_of(self, iterations: int) -> float:
        """The time of this many iterations, or of all if there are fewer."""
        return self.upto(iterations).points[-1].seconds

    def upto(self, iterations: int) -> Curve:
        """The curve as if training had stopped there."""
        return Curve(tuple(p for p in self.points if p.iterations <= iterations), self.final)

    @property
    def milliseconds_an_iteration(self) -> float:
        last = self.points[-1]
        return 1e3 * last.seconds / last.iterations

    def to_dict(self) -> dict[str, Any]:
        return {"final": self.final, "points": [list(p) for p in self.points]}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Curve:
        return cls(tuple(Point(*p) for p in kept["points"]), kept["final"])


def median_of_repeats(curves: Sequence[Curve]) -> Curve:
    """Repeats of the same training: the median of everything."""
    return _merged(curves, median)


def mean_of_folds(curves: Sequence[Curve]) -> Curve:
    """Trainings on the folds of one data set: the mean of everything."""
    return _merged(curves, fmean)


def _merged(curves: Sequence[Curve], middle: Any) -> Curve:
    """At every number of iterations that all have reached; a final one stays where it is."""
    limit = min((c.points[-1].iterations for c in curves if not c.final), default=inf)
    numbers = sorted({p.iterations for c in curves for p in c.points if p.iterations <= limit})
    points = []
    for n in numbers:
        of_all = [c.upto(n).points for c in curves]
        if all(of_all):
            seconds, valid, test = (middle([points[-1][i] for points in of_all]) for i in (1, 2, 3))
            points.append(Point(n, seconds, valid, test))
    return Curve(tuple(points), all(c.final for c in curves))


@dataclass(frozen=True)
class Standing:
    """A contestant beside the reference of its group. Times are in seconds, None if never reached.

    ``valid`` and ``valid_time`` are the equivalents of ``quality`` and the time to 99% on validation data. Each side's
    best is chosen by these, so that no test query influences the choice.
    """

    name: str
    ours: bool
    valid: float | None
    valid_time: float | None
    quality: float | None  # at the reference time
    times: dict[str, float | None]  # share of the reference quality → seconds
    ratios: dict[str, float | None]  # the same → how many times as quick as the reference
    best: float
    milliseconds: float
    added_mib: float


SHARES = (0.95, 0.99, 1.0)
NEAR_SHARE = 0.99  # the share that verdicts use


@dataclass(frozen=True)
class Yardstick:
    """What the reference of a group reaches (``quality``, ``valid``) and how long it takes (``seconds``)."""

    name: str
    quality: float
    seconds: float
    valid: float


def yardstick(name: str, curve: Curve, iterations: int | None) -> Yardstick:
    """The reference's time for this many iterations (None: all it had) and its quality by then."""
    seconds = curve.points[-1].seconds if iterations is None else curve.seconds_of(iterations)
    quality, valid = curve.quality_at(seconds), curve.valid_at(seconds)
    assert quality is not None, "a point lies at this very time"
    assert valid is not None
    return Yardstick(name, quality, seconds, valid)


def standings(results: Sequence[dict[str, Any]], reference: str, iterations: int | None) -> list[Standing]:
    """All contestants of a group, best at equal time first."""
    curves = {r["name"]: Curve.from_dict(r["curve"]) for r in results}
    by = yardstick(reference, curves[reference], iterations)
    its_times = {f"{share:g}": curves[reference].time_to(share * by.quality) for share in SHARES}
    found = []
    for result in results:
        curve = curves[result["name"]]
        times = {f"{share:g}": curve.time_to(share * by.quality) for share in SHARES}
        found.append(
            Standing(
                name=result["name"],
                ours=result["ours"],
                valid=curve.valid_at(by.seconds),
                valid_time=curve.time_to_valid(NEAR_SHARE * by.valid),
                quality=curve.quality_at(by.seconds),
                times=times,
                ratios={share: _ratio(its_times[share], times[share]) for share in times},
                best=curve.kept()[-1][1],
                milliseconds=curve.milliseconds_an_iteration,
                added_mib=result["added_mib"],
            )
        )
    return sorted(found, key=lambda s: (s.quality is None, -(s.quality or 0.0)))


def _ratio(reference: float | None, other: float | None) -> float | None:
    return None if reference is None or other is None else reference / other
