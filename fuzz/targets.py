"""The table of all that is fuzzed. A new reader gets one line here and a module with its ``make`` and ``use``."""

from __future__ import annotations

from fuzz import (
    arrays,
    arrow,
    binary,
    checkpoints,
    clicks,
    csv,
    foreign,
    json_lines,
    letor,
    members,
    models,
    pairs,
    parquet,
    scores,
    server,
    sidecars,
    stores,
    trec,
)
from fuzz.cases import Target

TARGETS: dict[str, Target] = {
    "letor": letor.PLAIN,
    "letor-gz": letor.COMPRESSED,
    "csv": csv.TARGET,
    "jsonl": json_lines.TARGET,
    "sidecars": sidecars.TARGET,
    "pairs": pairs.TARGET,
    "parquet": parquet.TARGET,
    "arrow": arrow.TARGET,
    "gnf": binary.TARGET,
    "run": trec.RUN,
    "qrels": trec.QRELS,
    "scores": scores.TARGET,
    "clicks": clicks.LOG,
    "click-models": clicks.MODEL,
    "models": models.TARGET,
    "foreign-models": foreign.TARGET,
    **members.TARGETS,
    "checkpoints": checkpoints.TARGET,
    "tune-store": stores.TUNE,
    "compare-store": stores.COMPARE,
    "rankers": arrays.TARGET,
    "server": server.TARGET,
}
