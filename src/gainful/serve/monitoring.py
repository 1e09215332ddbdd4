"""Metrics in Prometheus text format, and logs with one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import time
from bisect import bisect_left
from collections import defaultdict
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
        return {
            "requests": [[*key, count] for key, count in self.requests.items()],
            "latency": self.latency,
            "seconds": self.seconds,
            "rows": self.rows,
            "in_flight": self.in_flight,
            "loads": self.loads,
        }

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
        add = lines.append
        _head(lines, "gainful_requests_total", "counter", "Requests answered, by route and status.")
        for (method, route, status), count in sorted(self.requests.items()):
            add(f"gainful_requests_total{_labels(method=method, route=route, status=status)} {count}")
        _head(
            lines,
            "gainful_request_seconds",
            "histogram",
            "Seconds from a request's head to the end of its answer.",
        )
        for route, counts in sorted(self.latency.items()):
            total = 0
            for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
                total += count
                add(f"gainful_request_seconds_bucket{_labels(route=route, le=bound)} {total}")
            add(f"gainful_request_seconds_sum{_labels(route=route)} {self.seconds[route]:.6f}")
            add(f"gainful_request_seconds_count{_labels(route=route)} {total}")
        _head(lines, "gainful_rows_scored_total", "counter", "Documents scored.")
        add(f"gainful_rows_scored_total {self.rows}")
        _head(lines, "gainful_requests_in_flight", "gauge", "Requests in progress.")
        add(f"gainful_requests_in_flight {self.in_flight}")
        _head(lines, "gainful_model_loads_total", "counter", "Model files loaded, or refused and the old one kept.")
        for result, count in self.loads.items():
            add(f"gainful_model_loads_total{_labels(result=result)} {count}")
        _head(lines, "gainful_model_info", "gauge", "The model in use.")
        add(f"gainful_model_info{_labels(**model)} 1")
        _head(lines, "gainful_model_loaded_timestamp_seconds", "gauge", "When the model in use was loaded.")
        add(f"gainful_model_loaded_timestamp_seconds {loaded_at:.3f}")
        if impressions is not None:
            _head(lines, "gainful_impressions_total", "counter", "Lists interleaved and logged, or answered without.")
            for result, count in impressions.items():
                add(f"gainful_impressions_total{_labels(result=result)} {count}")
        return "\n".join(lines) + "\n"


def _head(lines: list[str], name: str, kind: str, text: str) -> None:
    lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


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
