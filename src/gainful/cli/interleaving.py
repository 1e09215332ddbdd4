"""``gainful interleave lists``, ``analyse`` and ``size``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

app = typer.Typer(no_args_is_help=True, help="Interleave two rankings: make lists, analyse clicks, plan the size.")

COLUMNS = ("impression", "credit", "clicked")


@app.command("lists")
def lists(
    a: Annotated[Path, typer.Argument(help="TREC run of A.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="TREC run of B.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file to write.", show_default=False)],
    method: Annotated[
        str, typer.Option("--method", help="Method: team-draft, probabilistic or optimised.")
    ] = "team-draft",
    length: Annotated[int, typer.Option("--length", help="Documents on a list, at most.")] = 10,
    each: Annotated[int, typer.Option("--each", help="Lists for each query.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Seed; the same seed gives the same lists.")] = 0,
) -> None:
    """Write interleaved lists of two runs: impression, query, position, document, credit.

    Log the lists that are shown with a column clicked (0 or 1), and give them to interleave analyse.
    """
    import numpy as np

    from gainful.cli.console import say
    from gainful.clicks.interleaving import interleave
    from gainful.comparison.result import csv_text
    from gainful.errors import DataError, plural
    from gainful.formats.files import refuse_unwritable, write_text
    from gainful.formats.trec import read_run

    refuse_unwritable(output)
    first, second = read_run(a), read_run(b)
    both = [query for query in first if query in second]
    if not both:
        raise DataError(f"{a} and {b} have no query in common")
    rows: list[tuple[Any, ...]] = []
    rng = np.random.default_rng(seed)
    impression = 0
    for query in both:
        best_of_a, best_of_b = _best_first(first[query]), _best_first(second[query])
        for _ in range(each):
            shown = interleave(best_of_a, best_of_b, method, length=length, seed=rng)
            impression += 1
            for place, (document, credit) in enumerate(zip(shown.documents, shown.credit, strict=True)):
                rows.append((impression, query, place + 1, document, f"{credit:.9g}"))
    write_text(output, csv_text(("impression", "query", "position", "document", "credit"), rows))
    left = len(first) + len(second) - 2 * len(both)
    rest = f"; {plural(left, 'query', 'queries')} of one run alone left out" if left else ""
    say(f"{output}: {plural(impression, 'list')} for {plural(len(both), 'query', 'queries')}{rest}")


def _best_first(scores: Mapping[str, float]) -> list[str]:
    """Equal scores in the order of trec_eval, by document from the last."""
    return sorted(sorted(scores, reverse=True), key=lambda one: -scores[one])


@app.command("analyse")
def analyse(
    log: Annotated[
        Path,
        typer.Argument(
            help="CSV file: impression, credit, clicked, and session if there are several per user. With --clicks, the "
            "impressions that gainful serve --interleave logged.",
            show_default=False,
        ),
    ],
    clicks: Annotated[
        Path | None,
        typer.Option(
            "--clicks",
            help="Clicks on logged impressions: a table or JSON Lines with impression, document and, if there are "
            "several impressions per user, session.",
        ),
    ] = None,
    read: Annotated[
        list[str] | None,
        typer.Option(
            "--read",
            metavar="NAME=COLUMN",
            help="Column of --clicks, such as document=sku or page=query_id. Repeatable.",
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option("--test", help="Test: t, or sign if all credits are ±1, and by default then.", show_default=False),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of intervals; 1 − level of the test.")] = 0.95,
    json: options.Json = False,
) -> None:
    """Say whether A or B is better, from clicks on interleaved lists."""
    from gainful.cli.console import key_value_table, print_json, stdout
    from gainful.clicks.interleaving import analyse_interleaving

    outcomes, sessions = _outcomes_of_rows(log) if clicks is None else _outcomes_of_clicks(log, clicks, read)
    found = analyse_interleaving(outcomes, session=sessions, test=test, level=level)
    if json:
        print_json(found.to_dict())
        return
    rows: list[tuple[str, Any]] = [
        ("verdict", "no difference shown" if found.winner is None else f"{found.winner} is better"),
        ("p-value", f"{found.p_value:.3g} ({found.test} test)"),
        ("A wins, B wins, ties", f"{found.wins_a:,}, {found.wins_b:,}, {found.ties:,}"),
        ("share of wins for A", f"{found.share:.4f} ({found.share_low:.4f} to {found.share_high:.4f})"),
        ("mean outcome", f"{found.mean:.4f} ({found.low:.4f} to {found.high:.4f})"),
        ("effect", f"{found.effect:.4f} standard deviations"),
    ]
    stdout().print(key_value_table(rows))


def _outcomes_of_clicks(log: Path, clicks: Path, read: list[str] | None) -> tuple[Sequence[float], list[str]]:
    """Outcome and session of each impression that a server logged."""
    from gainful.cli.console import say, warn
    from gainful.cli.inputs import parse_format_options
    from gainful.clicks.impressions import COLUMN_ROLES, read_interleaved
    from gainful.errors import UnknownNameError

    columns = parse_format_options(read)
    for name in columns:
        if name not in COLUMN_ROLES:
            raise UnknownNameError.among("column of clicks", name, COLUMN_ROLES)
    found = read_interleaved(log, clicks, **columns)
    say(f"{log}: {len(found.impressions):,} impressions, {found.clicks:,} clicks on them")
    for line in found.lines():
        warn(line)
    return found.outcomes.tolist(), found.session


def _outcomes_of_rows(log: Path) -> tuple[Sequence[float], list[str]]:
    """Outcome and session of each impression in a CSV file with a row per document shown."""
    from gainful.cli.inputs import parse_csv_number, read_csv_rows
    from gainful.errors import FormatError, ParameterError

    if log.suffix in (".jsonl", ".ndjson"):
        raise ParameterError(f"{log} lists what was shown; give the clicks on it with --clicks FILE")
    outcomes: dict[str, float] = {}
    sessions: dict[str, str] = {}
    for line, row in read_csv_rows(log, COLUMNS):
        clicked = parse_csv_number(row, "clicked", log, line)
        if clicked not in (0.0, 1.0):
            raise FormatError(f"clicked must be 0 or 1, was {clicked:g}", path=log, line=line)
        key = row["impression"]
        outcomes[key] = outcomes.get(key, 0.0) + clicked * parse_csv_number(row, "credit", log, line)
        sessions[key] = row.get("session", key)
    if not outcomes:
        raise FormatError("there are no rows", path=log)
    return list(outcomes.values()), list(sessions.values())


@app.command("size")
def size(
    share: Annotated[
        float | None,
        typer.Option("--share", help="Sign test: share of wins of the better ranker that matters.", show_default=False),
    ] = None,
    ties: Annotated[float, typer.Option("--ties", help="Share of impressions without a winner.")] = 0.0,
    effect: Annotated[
        float | None,
        typer.Option("--effect", help="t test: mean outcome that matters, in its deviations.", show_default=False),
    ] = None,
    power: Annotated[float, typer.Option("--power", help="Chance to find the difference.")] = 0.8,
    level: Annotated[float, typer.Option("--level", help="1 − level of the test.")] = 0.95,
    json: options.Json = False,
) -> None:
    """Print how many impressions the sign test (--share) or the t test (--effect) needs."""
    from gainful.cli.console import print_json, stdout
    from gainful.clicks.interleaving import interleaving_sample_size

    found = interleaving_sample_size(share, ties, effect=effect, power=power, level=level)
    if json:
        print_json({"impressions": found})
    else:
        stdout().print(f"{found:,} impressions")
