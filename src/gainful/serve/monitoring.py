"""Metrics in Prometheus text format, and logs with one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
log = logging.getLogger("gainful.serve")


class Metrics:
    """Counts since the start. Only the event loop's thread uses them, so they need no locks."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self.latency: dict[str, list[int]] = {}
        self.seconds: dict[str, float] = defaultdict(float)
        self.rows = 0
        self.in_flight = 0
        self.loads = {"ok": 0, "refused": 0}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        self.latency.setdefault(route, [0] * (len(BOUNDS) + 1))[bisect_left(BOUNDS, seconds)] += 1
        self.seconds[route] += seconds

    def state(self) -> dict[str, Any]:
        """The counts as plain values."""
        return vars(self) | {"requests": [[*key, count] for key, count in self.requests.items()]}

    def add(self, state: dict[str, Any]) -> None:
        """Add the counts of another process, or of an earlier one."""
        for method, route, status, count in state["requests"]:
            self.requests[method, route, status] += count
        for route, counts in state["latency"].items():
            own = self.latency.setdefault(route, [0] * (len(BOUNDS) + 1))
            self.latency[route] = [a + b for a, b in zip(own, counts, strict=True)]
            self.seconds[route] += state["seconds"][route]
        self.rows += state["rows"]
        self.in_flight += state["in_flight"]
        for result, count in state["loads"].items():
            self.loads[result] += count

    def text(self, model: dict[str, str], loaded_at: float, impressions: dict[str, int] | None = None) -> str:
        """All metrics in Prometheus text format, version 0.0.4."""
        lines: list[str] = []

        def add(name: str, kind: str, help: str, values: Iterable[tuple[str, object]]) -> None:
            """A metric with its values, each after the rest of its name and its labels."""
            lines.extend((f"# HELP gainful_{name} {help}", f"# TYPE gainful_{name} {kind}"))
            lines.extend(f"gainful_{name}{labels} {value}" for labels, value in values)

        requests = sorted(self.requests.items())
        answered = [(_labels(method=method, route=route, status=status), n) for (method, route, status), n in requests]
        add("requests_total", "counter", "Requests answered, by route and status.", answered)
        latency = "Seconds from a request's head to the end of its answer."
        add("request_seconds", "histogram", latency, self._latency())
        add("rows_scored_total", "counter", "Documents scored.", [("", self.rows)])
        add("requests_in_flight", "gauge", "Requests in progress.", [("", self.in_flight)])
        loads = [(_labels(result=result), count) for result, count in self.loads.items()]
        add("model_loads_total", "counter", "Model files loaded, or refused and the old one kept.", loads)
        add("model_info", "gauge", "The model in use.", [(_labels(**model), 1)])
        when = [("", f"{loaded_at:.3f}")]
        add("model_loaded_timestamp_seconds", "gauge", "When the model in use was loaded.", when)
        if impressions is not None:
            lists = [(_labels(result=result), count) for result, count in impressions.items()]
            add("impressions_total", "counter", "Lists interleaved and logged, or answered without.", lists)
        return "\n".join(lines) + "\n"

    def _latency(self) -> Iterator[tuple[str, object]]:
        for route, counts in sorted(self.latency.items()):
            totals = list(accumulate(counts))
            for bound, total in zip((*BOUNDS, "+Inf"), totals, strict=True):
                yield f"_bucket{_labels(route=route, le=bound)}", total
            yield f"_sum{_labels(route=route)}", f"{self.seconds[route]:.6f}"
            yield f"_count{_labels(route=route)}", totals[-1]


def _labels(**labels: Any) -> str:
    def escape(value: Any) -> str:
        return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in labels.items()) + "}"


# -- logs --------------------------------------------------------------------------------------------------------------


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, event, and the fields given as ``extra={"fields": …}``."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        entry: dict[str, Any] = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def set_up_logs(level: str) -> None:
    """Send gainful's and uvicorn's records to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("gainful.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.error").handlers = []
    logging.getLogger("uvicorn.access").disabled = True  # our own line says more


def log_event(event: str, level: int = logging.INFO, **fields: Any) -> None:
    log.log(level, event, extra={"fields": fields})
