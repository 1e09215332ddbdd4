"""Writes up the measurements of ``bench_cost.py``: constants for the library, a page and plots for the docs."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from cost_model import Measurement, by_ranker, checks, exponents, in_sweeps, model_of, parallel_part, worst
from cost_plots import panels, plot
from gainful.cluster.shards import block_count
from gainful.compute.memory import size_text
from gainful.costs.model import Problem, costs, estimate, time_text, trees_per_iteration

HOME = Path(__file__).parents[1]
RESULTS = HOME / "docs" / "results"
CONSTANTS = HOME / "src" / "gainful" / "costs" / "costs.json"
STEEPEST = 1.1  # largest exponent in rows that we accept
PACKAGES = ("gainful", "numpy", "scipy", "scikit-learn", "numba", "lightgbm", "torch")


def exponent_table(found: Iterable[Measurement]) -> str:
    lines = [f"{'ranker':24}{'rows':>8}{'10⁵–10⁶':>9}{'features':>10}{'docs':>8}{'last':>9}{'two cores':>11}"]
    for name, ms in by_ranker(found).items():
        e = exponents(ms)
        shown = "".join(f"{'' if v is None else f'{v:.2f}':>9}" for v in e.values())
        p = parallel_part(ms)
        shown += f"{'' if p is None else f'{1.0 / (1.0 - p / 2.0):.2f}':>11}"
        steep = max(e["rows"] or 0.0, e["last decade"] or 0.0) > STEEPEST
        lines.append(f"{name:24}{shown}{'  above 1.1 in rows' if steep else ''}")
    return "\n".join(lines)


# -- a billion rows ----------------------------------------------------------------------------------------------------

CLUSTER = {"rows": 1e9, "features": 136, "docs": 120, "machines": 100, "cores": 8}
BANDWIDTH = 1.25e9  # bytes per second: 10 Gbit/s
MESSAGE = 1e-4  # seconds for a small message to arrive
TASK = 1e-3  # most seconds Dask's scheduler spends on a task
# Tasks per block and iteration, counted over whole fits: an evaluation is one task and another that brings its answer;
# a step along a line, or a sum of two vectors of scores, is one.
TASKS = {"listnet": 2.0, "ranknet": 1.5, "ranksvm": 4.7, "structured-svm": 4.7, "rankmm-1": 2.8, "lambdarank": 1.0}
DISTRIBUTED = ("listnet", "ranknet", "ranksvm", "structured-svm", "rankmm-1", "lambdarank", "tree-regression", "gbrank",
               "lambdamart-plain", "mcrank")  # fmt: skip


def network(name: str, problem: Problem, machines: float) -> tuple[float, float]:
    """Bytes that a machine sends and receives per iteration, and the seconds it all takes.

    Linear: the weights go out to every block, a value and a gradient come back, float64, all through one link; and the
    scheduler starts a few tasks per block, one after another. ``problem`` is one machine's.
    Trees: for every split LightGBM merges the histograms of the smaller leaf by reduce-scatter, 16 bytes per bin.
    """
    if gainful.RANKERS[name].kind != "trees":
        blocks = block_count(machines * problem.rows)
        sent = blocks * 8.0 * (2.0 * problem.features + 1.0)
        return sent / machines, sent / BANDWIDTH + blocks * TASKS[name] * TASK + 2.0 * MESSAGE
    trees, splits = trees_per_iteration(problem), problem.given("n_leaves", 31)
    sent = trees * splits * 16.0 * problem.given("bins", 255) * problem.features
    steps = trees * splits * 2.0 * np.ceil(np.log2(machines))
    return 2.0 * sent, sent / BANDWIDTH + float(steps) * MESSAGE


def cluster_lines() -> list[str]:
    """The table of a billion rows: what each machine does per iteration."""
    c = CLUSTER
    share = c["rows"] / c["machines"]
    lines = [
        "| ranker | compute, 1 core | compute, 8 cores | network, bytes | network and tasks | iterations "
        "| whole fit, about | memory beside the data |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in DISTRIBUTED:
        sizes = {"rows": share, "features": c["features"], "docs_per_query": c["docs"]}
        one, many = (estimate(name, **sizes, cores=cores) for cores in (1, c["cores"]))
        params = gainful.ranker(name).get_params(deep=False)
        sent, seconds = network(name, Problem(share, c["features"], c["docs"], 5, params), c["machines"])
        whole = many.seconds + many.iterations * seconds
        count = f"{one.iterations:,.0f}" + (" (a guess)" if one.is_guess else "")
        cells = [f"`{name}`", time_text(one.iteration_seconds)]
        cells += ["not measured" if many.note else time_text(many.iteration_seconds), size_text(sent)]
        cells += [time_text(seconds), count, time_text(whole), size_text(one.bytes)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


# -- the page ----------------------------------------------------------------------------------------------------------

TERM_WORDS = """\
Terms, for n rows, d features, q documents per query: `one` 1; `rows` n; `values` n·d; `squares` n·d²; `sorted`
n·log₂ q; `sorted values` n·d·log₂ q; `pairs` n·q; `short pairs` n·min(q, 2500); `queries` n/q; `query values` n·d/q;
`drawn bins` d·min(n, 200,000); `split values` n·d·colsample·log₂ leaves; `split rows` n·log₂ leaves; `layers` n
times the weights of the net; `landmarks` n·m and `mapped` n·m·(d + m) for m landmarks; `drawn values` and `drawn
squares` are `values` and `squares` with max_pairs in place of n. An iteration of McRank has one tree per class, each
at this cost."""


def write(found: Sequence[Measurement]) -> None:
    """The constants, docs/results/costs.md and .json, and the two plots."""
    groups = by_ranker(found)
    models = {name: model_of(ms) for name, ms in groups.items()}
    facts = {
        "machine": f"one core of {processor()}",
        "date": time.strftime("%Y-%m-%d"),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }
    CONSTANTS.write_text(json.dumps({**facts, "rankers": models}, indent=1) + "\n")
    costs.cache_clear()
    summaries = {name: {"exponents": exponents(ms), "checks": checks(models[name], ms)} for name, ms in groups.items()}
    lines = ",\n".join(json.dumps(m) for m in found)
    kept = json.dumps({**facts, "rankers": summaries}, indent=1).removesuffix("\n}")
    RESULTS.joinpath("costs.json").write_text(f'{kept},\n "measurements": [\n{lines}\n]}}\n')
    for axis, what in (("rows", "rows"), ("docs", "documents per query")):
        title = f"Seconds per fit by {what}"
        RESULTS.joinpath(f"costs-{axis}.svg").write_text(plot(panels(groups, models, axis), what, title))
    RESULTS.joinpath("costs.md").write_text(page(groups, models, facts))


def page(groups: Mapping[str, list[Measurement]], models: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    from bench_cost import FEATURES

    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    share = CLUSTER["rows"] / CLUSTER["machines"]
    return "\n".join([
        "# What training costs: the measurements", "",
        "Written by `python benchmarks/bench_cost.py --resume FILE`; [Costs](../costs.md) explains it.",
        f"Measured on {facts['machine']}, one thread per fit, {facts['date']}; {versions}.", "",
        "![Seconds per fit by rows, every ranker](costs-rows.svg)", "",
        "![Seconds per fit by documents per query](costs-docs.svg)", "",
        "## Exponents", "",
        "Exponents of the seconds of a fit of fixed work: in rows from 10⁴ to 10⁶ (50 features, 100 documents per",
        f"query) and over the last decade alone; in features from {FEATURES[0]} to {FEATURES[-1]}; in documents per",
        "query from 10 to 10⁴ (or as far as a fit takes under a minute) and over their last decade (10⁵ rows). Once:",
        "the share of the time at 10⁶ rows spent outside the iterations.", "",
        *exponent_lines(groups), "",
        "## The model", "",
        "Seconds on one core: once, and per iteration. Worst: the largest factor between model and measurement over",
        f"the sweeps. Check: predicted over measured, seconds (bytes), at {' and at '.join(shapes_unseen())},",
        "to which no constant was fitted. Two cores: how many times as fast as one, at 10⁵ rows; empty if not",
        "measured.",
        "",
        *model_lines(groups, models), "", TERM_WORDS, "",
        "## A billion rows on a hundred machines", "",
        f"What the model predicts for 10⁹ rows × {CLUSTER['features']} float32 features, "
        f"{CLUSTER['docs']} documents per query, on {CLUSTER['machines']} machines of",
        f"{CLUSTER['cores']} cores like that one, with 10 Gbit/s between them. A machine holds {share:,.0f} rows, "
        f"{share * (4 * CLUSTER['features'] + 8) / 1e9:.2g} GB. The first columns are",
        "of one iteration. Network counts what a machine sends and receives, 0.1 ms per message and, for linear",
        f"rankers, 1 ms of the scheduler per task: {block_count(CLUSTER['rows'])} blocks, and per block and iteration "
        f"{', '.join(f'{n:g} (`{name}`)' for name, n in TASKS.items())}",
        "tasks, as counted. The time of a whole fit is for the iterations listed, on 8 cores where those",
        "were measured, otherwise on one. Guessed iterations are those on an easy artificial set of 10⁴ rows;",
        "on OHSUMED it took a tenth to four times as many, and nothing was run at this size.", "",
        *cluster_lines(), "",
    ])  # fmt: skip


def shapes_unseen() -> list[str]:
    from bench_cost import UNSEEN

    return [f"{s.rows:,} × {s.features} with {s.docs} per query" for s in UNSEEN]


def exponent_lines(groups: Mapping[str, list[Measurement]]) -> list[str]:
    from cost_fits import WORK

    lines = [
        "| ranker | fixed work | rows | 10⁵ to 10⁶ | features | documents per query | last decade "
        "| seconds at 10⁶ rows | once | MB at 10⁶ rows |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, ms in groups.items():
        top = max(in_sweeps(ms), key=lambda m: m["rows"])
        work = ", ".join(f"{k}={v}" for k, v in WORK[name].items() if not k.startswith(("tol", "early", "device")))
        shown = " | ".join("" if e is None else f"{e:.2f}" for e in exponents(ms).values())
        once = max(0.0, 1.0 - top["iterations"] * top["each"] / top["seconds"])
        size = "" if top["bytes"] is None else f"{top['bytes'] / 1e6:,.0f}"
        lines.append(f"| `{name}` | {work or 'closed form'} | {shown} | {top['seconds']:.3g} | {once:.0%} | {size} |")
    return lines


def model_lines(groups: Mapping[str, list[Measurement]], models: Mapping[str, Any]) -> list[str]:
    lines = [
        "| ranker | once | per iteration | bytes | worst | check | check | two cores |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, ms in groups.items():
        model = models[name]
        checked = [f"{row['seconds']} ({row['bytes']})" for row in checks(model, ms)]
        sums = " | ".join(_sum(model[part]) for part in ("setup", "iteration", "bytes"))
        faster = "" if model["parallel"] is None else f"{1.0 / (1.0 - model['parallel'] / 2.0):.2f}"
        shown = " | ".join([*checked, "", ""][:2])
        lines.append(f"| `{name}` | {sums} | {worst(model, ms):.1f} | {shown} | {faster} |")
    return lines


def _sum(constants: Mapping[str, float]) -> str:
    return " + ".join(f"{c:.2g}·{term}" for term, c in constants.items()) or "0"


def processor() -> str:
    facts = Path("/proc/cpuinfo")
    named = (line for line in facts.read_text().splitlines() if line.startswith("model name")) if facts.exists() else ()
    return next((line.partition(":")[2].strip() for line in named), platform.machine())
