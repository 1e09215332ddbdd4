"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Format: letor, parquet, arrow, csv, tsv, jsonl or binary. Default: by suffix."),
]
Merge = Annotated[
    bool, typer.Option("--merge", help="Merge the rows of a query id that appears again later in the file.")
]
Read = Annotated[
    list[str] | None,
    typer.Option("--read", metavar="NAME=VALUE", help="Option of the format, such as qid=query_id. Repeatable."),
]
Pairs = Annotated[
    Path | None,
    typer.Option(
        "--pairs",
        metavar="FILE",
        help="Preferences instead of grades: CSV with the columns query, better, worse and optionally weight.",
    ),
]
DEFAULT_METRICS = "ndcg@10,ndcg@1,ndcg@5,map"
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        help="Comma-separated metrics; the first is the headline. With --qrels also trec, those that trec_eval prints.",
        show_default=f"{DEFAULT_METRICS}; on preferences pair-accuracy; "
        "with --qrels map,ndcg@10,p@10,recall@1000,rprec,bpref,mrr,judged@10",
    ),
]
Convention = Annotated[
    str | None,
    typer.Option(
        "--convention",
        help="Follow a tool's conventions: letor3, letor4, trec_eval-9 (or trec), trec_eval-10, "
        "ir-measures, lightgbm, xgboost, catboost, sklearn. Default with --qrels: trec_eval-9.",
        show_default=False,
    ),
]
QrelsFile = Annotated[
    Path | None, typer.Option("--qrels", metavar="QRELS", help="TREC qrels: judge TREC runs by them, without DATA.")
]
Queries = Annotated[
    str,
    typer.Option(
        "--queries",
        help="With --qrels: all (every query of the qrels; one that a run lacks is an empty list) or run (queries that "
        "no run has are left out, as in trec_eval).",
    ),
]
PerQueryFile = Annotated[
    Path | None,
    typer.Option("--per-query-csv", metavar="FILE", help="Write the value of every query to this CSV file."),
]
Relevant = Annotated[
    float | None,
    typer.Option("--relevant", help="Lowest grade that counts as relevant, for metrics such as p, map, mrr, recall."),
]
Data = Annotated[Path, typer.Argument(help="Data file, or a folder or pattern of files.", show_default=False)]
DataOrShards = Annotated[Path, typer.Argument(help="Data file, or a folder or pattern of shards.", show_default=False)]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Dask scheduler whose workers open the data, such as tcp://host:8786."
    ),
]


def _limit_memory(context: typer.Context, size: str | None) -> str | None:
    """Set the limit for everything that the command does, and pass it on to the reader of the data."""
    from gainful.compute.memory import memory_limit

    context.with_resource(memory_limit(size))
    return size


MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        callback=_limit_memory,
        help="Memory that reading a file may take, and training besides the data, such as 8GB; each is compared with "
        "the limit by itself. off: no limit. Default: what is free.",
    ),
]

# -- tuning ------------------------------------------------------------------------------------------------------------

Search = Annotated[str, typer.Option("--search", help="Search method: random (evenly spread), grid or optuna.")]
RefitAll = Annotated[
    bool, typer.Option("--refit-all", help="Train the final model on training and validation data together.")
]
Prune = Annotated[
    bool, typer.Option("--prune/--no-prune", help="Stop trials that fall hopelessly behind.", show_default=False)
]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Number of trials to run at once.")]
RankerJobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Number of rankers to train side by side.")]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Folder for results as they arrive; a killed run resumes from there."),
]
