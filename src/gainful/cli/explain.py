"""``gainful explain``: what each feature adds to scores, why one document is above another, which features matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gainful.cli import options
from gainful.cli.models import Model

if TYPE_CHECKING:
    from gainful.data.dataset import RankingData
    from gainful.data.rows import Array
    from gainful.explanation.explain import PairExplanation
    from gainful.explanation.importance import PermutationImportance
    from gainful.rankers.base import Ranker


def explain(
    model: Model,
    data: options.Data,
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="ID", help="Query to explain. Default: the first.")
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, help="Number of features to show, largest contribution first.")
    ] = 10,
    documents: Annotated[int, typer.Option("--documents", min=1, help="Number of documents to show, best first.")] = 3,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--pair", metavar="A B", help="Explain why A is above B: document ids, or row numbers in the file, from 1."
        ),
    ] = None,
    importance: Annotated[
        bool,
        typer.Option(
            "--importance", help="Show instead what a metric loses when each feature is shuffled within queries."
        ),
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Metric for --importance. Default: ndcg@10; on preferences pair-accuracy."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", min=1, help="Permutations of each feature for --importance.", show_default="5"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the permutations of --importance.", show_default="0")
    ] = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Explain scores: what each feature adds, for the best documents of a query or the difference between two.

    With --importance: how much the model needs each feature, over all queries of DATA.
    """
    from gainful.cli.console import print_json, say, stdout
    from gainful.cli.inputs import load_data, load_model, read_options
    from gainful.errors import GainfulError

    how = {"metric": metric, "repeats": repeats, "seed": seed}
    _refuse_useless_options(importance, {"--query": query, "--pair": pair}, how)
    fitted = load_model(model)
    fitted._check_fitted()
    if importance:
        from gainful.explanation.importance import permutation_importance

        rows = load_data(data, read_options(format, merge, read, memory_limit), fitted)
        given: dict[str, Any] = {name: value for name, value in how.items() if value is not None}
        losses = permutation_importance(fitted, rows, **given)
        if json:
            print_json(losses.to_dict(top))
        else:
            stdout().print(_importance_view(losses, top))
        return
    reason = fitted._why_no_contributions()
    if reason is not None:
        raise GainfulError(reason)
    rows = load_data(data, read_options(format, merge, read, memory_limit), fitted)
    X = fitted._features_to_score(rows)
    if pair is not None:
        places = [_row_of(rows, name, query) for name in pair]
        found = _pair(fitted, X, places)
        a, b = (rows.qid[place] for place in places)
        if a != b:
            say(
                f"note: these documents are from two queries, {a} and {b}; a model ranks the documents within one query"
            )
        if json:
            print_json({"a": _label(rows, places[0]), "b": _label(rows, places[1])} | found.to_dict(top))
        else:
            stdout().print(_pair_view(found, pair, top))
        return
    chosen = 0 if query is None else _query_number(rows, query)
    explained = _best_documents(fitted, X, rows, chosen, documents)
    if json:
        shown = [{**_label(rows, row), "rank": r, **explanation.to_dict(top)} for r, row, explanation in explained]
        print_json({"query": rows.query_ids[chosen], "documents": shown})
    else:
        stdout().print(_query_view(rows, chosen, explained, top))


def _refuse_useless_options(importance: bool, of_documents: dict[str, Any], of_importance: dict[str, Any]) -> None:
    """Raise if an option would change nothing."""
    from gainful.errors import ParameterError

    if importance:
        useless = next((name for name, value in of_documents.items() if value is not None), None)
        if useless is not None:
            raise ParameterError(f"--importance is about all queries; leave out {useless}")
        return
    useless = next((name for name, value in of_importance.items() if value is not None), None)
    if useless is not None:
        raise ParameterError(f"--{useless} is for --importance; leave out --{useless}, or give --importance")


def _best_documents(model: Ranker, X: Any, rows: RankingData, query: int, most: int) -> list[tuple[int, int, Any]]:
    """(rank, row, explanation) of the best documents of a query."""
    import numpy as np

    from gainful.explanation.explain import explain as explain_rows

    start, end = int(rows.offsets[query]), int(rows.offsets[query + 1])
    order = np.argsort(-model.predict(X[start:end]), kind="stable")[:most]
    explained = explain_rows(model, X[start + order])
    return [(r + 1, start + int(order[r]), explanation) for r, explanation in enumerate(explained)]


def _pair(model: Ranker, X: Any, places: list[int]) -> PairExplanation:
    from gainful.explanation.explain import explain_pair

    a, b = (_values(X, place) for place in places)
    return explain_pair(model, a, b)


def _values(X: Any, row: int) -> Array:
    return X[row] if hasattr(X, "__array__") else X[[row]].toarray()[0]  # type: ignore[no-any-return]


# -- which query, which row --------------------------------------------------------------------------------------------


def _query_number(rows: RankingData, query: str) -> int:
    from gainful.errors import UnknownNameError

    names = [str(name) for name in rows.query_ids]
    if query not in names:
        raise UnknownNameError.among("query", query, names[:20])
    return names.index(query)


def _row_of(rows: RankingData, name: str, query: str | None) -> int:
    """The row of a document id (within the query, if given), or of a row number in the file, from 1."""
    import numpy as np

    from gainful.errors import ParameterError

    inside = range(rows.n_rows)
    if query is not None:
        q = _query_number(rows, query)
        inside = range(int(rows.offsets[q]), int(rows.offsets[q + 1]))
    if rows.doc_ids is not None:
        found = [row for row in inside if str(rows.doc_ids[row]) == name]
        if len(found) > 1:
            raise ParameterError(f"document {name!r} is in {len(found)} rows; name its query with --query")
        if found:
            return found[0]
    if name.isdecimal() and 1 <= int(name) <= rows.n_rows:
        place = int(name) - 1
        row = place if rows.input_order is None else int(np.flatnonzero(rows.input_order == place)[0])
        if row not in inside:
            raise ParameterError(
                f"row {name} belongs to query {rows.qid[row]}, not to query {query}; leave out --query"
            )
        return row
    raise ParameterError(f"no document {name!r}; give a document id, or a row number from 1 to {rows.n_rows}")


def _label(rows: RankingData, row: int) -> dict[str, Any]:
    number = row if rows.input_order is None else int(rows.input_order[row])
    name = None if rows.doc_ids is None else rows.doc_ids[row]
    return {"row": number + 1, "document": name}


# -- tables ------------------------------------------------------------------------------------------------------------


def _query_view(rows: RankingData, query: int, explained: list[tuple[int, int, Any]], top: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    from gainful.cli.console import headed_table

    parts: list[Any] = [Text(f"query {rows.query_ids[query]}: {len(explained)} of {int(rows.counts[query])} documents")]
    for r, row, explanation in explained:
        label = _label(rows, row)
        name = "" if label["document"] is None else f" {label['document']}"
        parts.append(Text(f"\nrank {r}: row {label['row']}{name}, score {explanation.score:.6g}", style="bold"))
        table = headed_table(("feature", "value", "adds"))
        for share in explanation.shares[:top]:
            table.add_row(Text(share.feature), _number(share.value), f"{share.contribution:+.6g}")
        _close(table, 2, sum(s.contribution for s in explanation.shares[top:]), len(explanation.shares) - top)
        table.add_row("base", "", f"{explanation.base:+.6g}", style="dim")
        parts.append(table)
    return Group(*parts)


def _pair_view(found: PairExplanation, names: tuple[str, str], top: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    from gainful.cli.console import headed_table

    where = "above" if found.difference > 0 else "below" if found.difference < 0 else "level with"
    title = f"{names[0]} is {where} {names[1]}: {found.score_a:.6g} − {found.score_b:.6g} = {found.difference:+.6g}"
    table = headed_table(("feature", "value a", "value b", "adds"))
    for share in found.shares[:top]:
        table.add_row(Text(share.feature), _number(share.value_a), _number(share.value_b), f"{share.difference:+.6g}")
    _close(table, 3, sum(s.difference for s in found.shares[top:]), len(found.shares) - top)
    return Group(Text(title, style="bold"), table)


def _importance_view(found: PermutationImportance, top: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    from gainful.cli.console import headed_table

    n = len(found.per_query)
    title = f"{found.metric} {found.value:.4f} on {n:,} queries; loss when a feature is shuffled within queries"
    table = headed_table(("feature", "loss", f"{100 * found.level:g} % interval"))
    for one in found.losses[:top]:
        table.add_row(Text(one.feature), f"{one.loss:+.4f}", Text(f"[{one.low:+.4f}, {one.high:+.4f}]"))
    left = len(found.losses) - top
    if left > 0:
        table.add_row(f"{left} more", "", "", style="dim")
    return Group(Text(title, style="bold"), table)


def _close(table: Any, place: int, rest: float, n_rest: int) -> None:
    if n_rest > 0:
        table.add_row(f"{n_rest} more", *[""] * (place - 1), f"{rest:+.6g}", style="dim")


def _number(value: float | str | None) -> Any:
    from rich.text import Text

    return "missing" if value is None else Text(value) if isinstance(value, str) else f"{value:.6g}"
