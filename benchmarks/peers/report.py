"""The page of results: tables and a summary in words, from the saved figures alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from peers.contestants import GROUPS, REFERENCE
from peers.curves import SHARES, Curve, Standing, Yardstick, standings, yardstick

NEAR = 0.002  # NDCG@10 differences below this count as equal
ABOUT = 1.25  # ratio of times below which they count as equal


def groups_of(entry: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The results of a data set by group; a group without its reference cannot be compared."""
    found = {}
    for group in GROUPS:
        results = [r for r in entry["results"] if r["group"] == group]
        if any(r["name"] == REFERENCE[group] for r in results):
            found[group] = results
    return found


def iterations_of(entry: dict[str, Any], group: str) -> int | None:
    """The iterations after which the reference is read: None for the linear one, which converges."""
    return entry["iterations"] if group == "trees" else None


def reference(entry: dict[str, Any], group: str) -> Yardstick:
    name = REFERENCE[group]
    curve = next(Curve.from_dict(r["curve"]) for r in entry["results"] if r["name"] == name)
    return yardstick(name, curve, iterations_of(entry, group))


def title_of(entry: dict[str, Any]) -> str:
    return f"{entry['title']}, {_threads(entry)}"


def page(kept: dict[str, Any]) -> str:
    """Everything as Markdown; where ours are behind comes first."""
    parts, behind = [], []
    for name, entry in kept["data"].items():
        title = title_of(entry)
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n{_head(entry)}")
        parts.append(f"![Learning curves, {title}](peers-{name}.svg)")
        for group, results in groups_of(entry).items():
            table = standings(results, REFERENCE[group], iterations_of(entry, group))
            by = reference(entry, group)
            lines = list(verdict(table, by))
            parts.append(f"### {GROUPS[group]}: {title}\n\n{_table(table, by)}")
            parts.append("\n".join(f"- {line}" for line in lines))
            behind += [f"- {GROUPS[group]}, {title}. {line}" for line in lines if "**" in line]
        if entry["busy"]:
            parts.append(
                "**The machine was busy** (a fixed piece of work took over a quarter longer than at best) while these "
                f"were measured, so their times are too long; the next run measures them again: "
                f"{', '.join(entry['busy'])}."
            )
        if entry["failed"]:
            parts.append("\n".join(f"- {who}: {why}" for who, why in entry["failed"].items()))
    losses = ["## Where ours are behind\n\n" + "\n".join(behind)] if behind else []
    return "\n\n".join(["# gainful beside its peers", _preface(kept), *losses, *parts]) + "\n"


def _preface(kept: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    commands = dict.fromkeys(entry["command"] for entry in kept["data"].values())
    return (
        "How this is measured: [Beside the peers](../peers.md). Ratios are to the reference of the table, in the same "
        "run; above 1× is quicker. A dash: not reached in time. Ours are in bold.\n\n"
        f"- Commands: {', '.join(f'`{command}`' for command in commands)}\n"
        f"- {kept['machine']}; {kept['cores']} cores\n- {versions}"
    )


def _threads(entry: dict[str, Any]) -> str:
    return "one thread" if entry["threads"] == 1 else f"{entry['threads']} threads"


def _head(entry: dict[str, Any]) -> str:
    clock = ", in processor seconds" if entry["clock"] == "cpu" else ""
    return (
        f"{entry['rows'][0].upper()}{entry['rows'][1:]}. {entry['metric']}. At most {2 * entry['iterations']} trees or "
        f"{entry['seconds']:g} s each, on {_threads(entry)}{clock}. Measured on {entry['when']}."
    )


def _table(table: Sequence[Standing], by: Yardstick) -> str:
    heads = ["ranker", f"NDCG@10 in {_time(by.seconds)}", "difference"]
    heads += [f"time to {share:.0%}" for share in SHARES] + ["ratio at 99%", "best", "ms per iteration", "memory added"]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for s in table:
        name = f"**{s.name}**" if s.ours else s.name
        cells = [f"{name} (reference)" if s.name == by.name else name]
        cells += [_figure(s.quality), "" if s.quality is None else f"{s.quality - by.quality:+.4f}"]
        cells += [_time(s.times[f"{share:g}"]) for share in SHARES]
        cells.append("–" if s.ratios["0.99"] is None else f"{_short(s.ratios['0.99'])}×")
        cells += [_figure(s.best), _short(s.milliseconds), f"{s.added_mib:,.0f} MiB"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def verdict(table: Sequence[Standing], by: Yardstick) -> Iterator[str]:
    """In words: who is better at equal time, who is quicker at equal quality; ours against theirs. Losses are bold.

    Each side's ranker is chosen on validation data; the figures are from test data.
    """
    ours, theirs = [s for s in table if s.ours], [s for s in table if not s.ours]
    best, rival = _best(ours), _best(theirs)
    if best is not None and rival is not None:
        gap = best.quality - rival.quality  # type: ignore[operator]
        how = "about as good as" if abs(gap) < NEAR else "better than" if gap > 0 else "**worse than**"
        yield (
            f"Equal time ({_time(by.seconds)}): our best, {best.name} ({_figure(best.quality)}), is {how} the best "
            f"peer, {rival.name} ({_figure(rival.quality)})."
        )
    quick, other = _quickest(ours), _quickest(theirs)
    if other is not None:
        yield f"Equal quality (99% of {by.quality:.4f}): {_race(quick, other)}"
    behind = [s.name for s in ours if s.times["0.99"] is None]
    if behind and len(behind) < len(ours):
        yield f"Of ours, these do not reach 99% in time: {', '.join(behind)}."


def _race(quick: Standing | None, other: Standing) -> str:
    mine, its = (None if one is None else one.times["0.99"] for one in (quick, other))
    if quick is None or (mine is None and its is None):
        return f"**none of ours reaches it**; {other.name} does." if its is not None else "nobody reaches it on test."
    if mine is None:
        return f"our quickest on validation, {quick.name}, **does not reach it** on test; {other.name} does."
    if its is None:
        return (
            f"our quickest, {quick.name}, takes {_time(mine)}; {other.name}, their quickest, does not reach it on test."
        )
    ratio = its / mine
    how = "about as quick as" if 1 / ABOUT < ratio < ABOUT else "quicker than" if ratio > 1 else "**slower than**"
    return f"our quickest, {quick.name} ({_time(mine)}), is {how} the quickest peer, {other.name} ({_time(its)})."


def _best(table: Sequence[Standing]) -> Standing | None:
    """The one that is best on validation at the reference time."""
    known = [s for s in table if s.valid is not None]
    return max(known, key=lambda s: s.valid or 0.0, default=None)


def _quickest(table: Sequence[Standing]) -> Standing | None:
    """The one that gets there first on validation."""
    known = [s for s in table if s.valid_time is not None]
    return min(known, key=lambda s: s.valid_time or 0.0, default=None)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _short(value: float) -> str:
    """Two or three digits.

    >>> _short(0.4821), _short(1.726), _short(344.2)
    ('0.48', '1.7', '344')
    """
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
