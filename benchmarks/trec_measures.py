"""Every measure against pytrec-eval-terrier and ir-measures, query by query, on the runs and qrels of a folder.

``python -m benchmarks.trec_measures FOLDER`` compares all ``*.run.gz`` (or ``*.run``) with the ``*.qrels.gz`` beside
them and prints a table: measure, how many values were compared, and the largest difference. ir-measures, and pyndeval
for measures of subtopics, are compared if they are installed. Exits with 1 if a difference is above 1e-6.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gainful

BOUND = 1e-6
CUTS = (1, 5, 10, 15, 20, 30, 100, 200, 500, 1000)

#: Ours → trec_eval's name, with the defaults of pytrec_eval.
TREC: dict[str, str] = {
    "map": "map",
    "ndcg": "ndcg",
    "mrr": "recip_rank",
    "rprec": "Rprec",
    "bpref": "bpref",
    "infap": "infAP",
    "iprec-avg": "11pt_avg",
    "g": "G",
    "bin-g": "binG",
    "r-ndcg": "Rndcg",
    "ndcg-rel": "ndcg_rel",
    "utility": "utility",
    "set-p": "set_P",
    "set-recall": "set_recall",
    "set-f1": "set_F",
    "set-map": "set_map",
    "set-relative-p": "set_relative_P",
    "num-ret": "num_ret",
    "num-rel": "num_rel",
    "num-rel-ret": "num_rel_ret",
    "num-nonrel-judged-ret": "num_nonrel_judged_ret",
    "wta": "success_1",
    **{f"iprec@{i / 10:g}": f"iprec_at_recall_{i / 10:.2f}" for i in range(11)},
    **{f"rprec(times={i / 5:g})": f"Rprec_mult_{i / 5:.2f}" for i in range(1, 11)},
    **{f"hit@{k}": f"success_{k}" for k in (1, 5, 10)},
    **{f"p@{k}(divisor=relevant)": f"relative_P_{k}" for k in CUTS[1:]},
    **{
        f"{ours}@{k}": f"{theirs}_{k}"
        for ours, theirs in (("p", "P"), ("recall", "recall"), ("ndcg", "ndcg_cut"), ("map", "map_cut"))
        for k in CUTS[1:]
    },
}
#: The geometric means of trec_eval hold log(max(value, 1e-5)) for each query.
GEOMETRIC = {"map": "gm_map", "bpref": "gm_bpref"}

#: Ours → ir-measures'.
IR_MEASURES: dict[str, str] = {
    "map": "AP",
    "map@100": "AP@100",
    "map(unjudged=skip)": "AP(judged_only=True)",
    "map(relevant=2)": "AP(rel=2)",
    "mrr": "RR",
    "mrr(unjudged=skip)": "RR(judged_only=True)",
    "rprec": "Rprec",
    "rprec(unjudged=skip)": "Rprec(judged_only=True)",
    "bpref": "Bpref",
    "infap": "infAP",
    "ndcg": "nDCG",
    "ndcg@10": "nDCG@10",
    "ndcg@10(unjudged=skip)": "nDCG(judged_only=True)@10",
    "p@10": "P@10",
    "p@10(unjudged=skip)": "P(judged_only=True)@10",
    "p@10(relevant=2)": "P(rel=2)@10",
    "recall@100": "R@100",
    "recall@100(unjudged=skip)": "R(judged_only=True)@100",
    "hit@1": "Success@1",
    "hit@10": "Success@10",
    "hit@10(unjudged=skip)": "Success(judged_only=True)@10",
    "iprec@0.1": "IPrec@0.1",
    "iprec@0.1(unjudged=skip)": "IPrec(judged_only=True)@0.1",
    "judged@10": "Judged@10",
    "judged@1000": "Judged@1000",
    "judged": "Judged",
    "set-p": "SetP",
    "set-relative-p": "SetP(relative=True)",
    "set-recall": "SetR",
    "set-f1": "SetF",
    "set-map": "SetAP",
    "set-p(unjudged=skip)": "SetP(judged_only=True)",
    "num-ret": "NumRet",
    "num-rel": "NumRel",
    "num-rel-ret": "NumRet(rel=1)",
    "rbp(0.8)": "RBP(rel=1)",
    "alpha-ndcg@5": "alpha_nDCG@5",
    "alpha-ndcg@20": "alpha_nDCG@20",
    "alpha-ndcg@10(alpha=0.25)": "alpha_nDCG(alpha=0.25)@10",
    "err-ia@5": "ERR_IA@5",
    "err-ia@20": "ERR_IA@20",
}
#: With others in one call, ir-measures gives these no values, or those of lists without documents not judged.
ALONE = ("alpha-ndcg", "err-ia", "rbp", "num-ret", "num-rel")
NEEDS = {"alpha-ndcg": "pyndeval", "err-ia": "pyndeval", "rbp": "cwl"}


def compare_with_trec(run: gainful.Run, qrels: gainful.Qrels) -> Iterator[tuple[str, str, int, float]]:
    """(our measure, theirs, values, largest difference), by pytrec_eval."""
    import pytrec_eval

    judged = qrels.judge(run, queries="run")
    whole = {query: {document: int(grade) for document, grade in qrels[query].items()} for query in qrels}
    found = pytrec_eval.RelevanceEvaluator(whole, pytrec_eval.supported_measures - {"relstring", "runid"}).evaluate(
        {query: dict(run[query]) for query in run}
    )
    unknown = set(found[judged.query_ids[0]]) - {*TREC.values(), *GEOMETRIC.values(), "num_q"}
    if unknown:
        raise SystemExit(f"measures of pytrec_eval without one of ours: {', '.join(sorted(unknown))}")
    for spec, name in TREC.items():
        ours = gainful.metric(spec, convention="trec").per_query(judged)
        yield spec, name, *difference(ours, [found[query][name] for query in judged.query_ids])
    for spec, name in GEOMETRIC.items():
        ours = np.log(np.maximum(gainful.metric(spec, convention="trec").per_query(judged), 1e-5))
        yield f"log {spec}", name, *difference(ours, [found[query][name] for query in judged.query_ids])


def compare_with_ir_measures(run: gainful.Run, qrels: gainful.Qrels) -> Iterator[tuple[str, str, int, float]]:
    """The same by ir-measures, of those measures whose tools are installed."""
    import ir_measures

    judged = qrels.judge(run, queries="run")
    subtopics = ["0"] * qrels.n_rows if qrels.subtopics is None else qrels.subtopics.tolist()
    queries = np.repeat(qrels.query_ids, np.diff(qrels.offsets)).tolist()
    rows = zip(queries, qrels.doc_ids.tolist(), qrels.grades.tolist(), subtopics, strict=True)
    theirs_qrels = [ir_measures.Qrel(query, document, int(grade), one) for query, document, grade, one in rows]
    theirs_run = [ir_measures.ScoredDoc(q, d, s) for q in run for d, s in run[q].items()]
    ours = {spec: gainful.metric(spec, convention="ir-measures") for spec in IR_MEASURES}
    ours = {spec: m for spec, m in ours.items() if importlib.util.find_spec(NEEDS.get(m.kind, "numpy")) is not None}
    # As Python: ir-measures' own parser needs names that Python 3.12 deprecates and 3.14 lacks.
    measures = {spec: eval(IR_MEASURES[spec], vars(ir_measures)) for spec in ours}
    alone = [measures[spec] for spec, m in ours.items() if m.kind in ALONE]
    groups = [[one for one in measures.values() if one not in alone], *([one] for one in alone)]
    found: dict[tuple[Any, str], float] = {
        (one.measure, one.query_id): one.value
        for group in groups
        for one in ir_measures.iter_calc(group, theirs_qrels, theirs_run)
    }
    for spec, m in ours.items():
        theirs = [found[measures[spec], query] for query in judged.query_ids]
        yield spec, IR_MEASURES[spec], *difference(m.per_query(judged), theirs)


def difference(ours: Any, theirs: Any) -> tuple[int, float]:
    """How many values, and the largest difference. trec_eval divides 0 by 0 where a list is empty; ours is 0 then."""
    theirs = np.nan_to_num(np.asarray(theirs, dtype=np.float64))
    return len(ours), float(np.max(np.abs(np.asarray(ours) - theirs)))


def runs_of(folder: Path) -> tuple[gainful.Qrels, Mapping[str, gainful.Run]]:
    """The qrels and the runs of a folder."""
    qrels = sorted(path for path in folder.iterdir() if ".qrels" in path.name)
    runs = sorted(path for path in folder.iterdir() if ".run" in path.name)
    if len(qrels) != 1 or not runs:
        raise SystemExit(f"{folder} needs one file *.qrels and files *.run, plain or .gz")
    return gainful.read_qrels(qrels[0]), {path.name.split(".")[0]: gainful.read_run(path) for path in runs}


def main(folder: Path) -> int:
    qrels, runs = runs_of(folder)
    sides = {"pytrec_eval": compare_with_trec}
    if importlib.util.find_spec("ir_measures") is not None:
        sides["ir_measures"] = compare_with_ir_measures
    worst = 0.0
    print(f"{qrels!r}; runs: {', '.join(runs)}")
    for tool, compare in sides.items():
        rows: dict[tuple[str, str], tuple[int, float]] = {}
        for run in runs.values():
            for spec, name, n, largest in compare(run, qrels):
                count, before = rows.get((spec, name), (0, 0.0))
                rows[spec, name] = count + n, max(before, largest if not math.isnan(largest) else math.inf)
        print(f"\n{'gainful':34} {tool:26} {'values':>7}  largest difference")
        for (spec, name), (n, largest) in rows.items():
            print(f"{spec:34} {name:26} {n:7,}  {largest:.1e}{'  <<<' if largest > BOUND else ''}")
        worst = max([worst, *(largest for _, largest in rows.values())])
    print(f"\nlargest difference: {worst:.1e}")
    return int(worst > BOUND)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m benchmarks.trec_measures FOLDER")
    raise SystemExit(main(Path(sys.argv[1])))
