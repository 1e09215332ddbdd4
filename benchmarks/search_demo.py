"""The experiment of ``gainful demo`` on several divisions of the searches, and among all documents.

python benchmarks/search_demo.py [--seeds 3] [--seconds 0]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from gainful.demo.corpus import SearchCorpus
from gainful.demo.experiment import BM25, FIRST, HEADLINE, SHOWN, Experiment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.0, help="for auto; 0 leaves it out")
    given = parser.parse_args()
    corpus = SearchCorpus.gather()
    n_rows = corpus.data().n_rows
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = time.process_time() + child.ru_utime + child.ru_stime
    counts = f"{len(corpus.documents):,} documents, {len(corpus.queries):,} queries, {n_rows:,} rows"
    print(f"{counts}; {spent:.1f} s of one core")
    for seed in range(given.seeds):
        found = Experiment.prepare(corpus, seed)
        result = found.run(given.seconds)
        print(f"\nseed {seed}: {len(result.query_ids)} test queries; BM25 chose {found.bm25.setting}")
        for label in result.by_mean:
            line = f"{label:22} NDCG@10 {result.mean(label, HEADLINE):.4f}  first {result.mean(label, FIRST):.3f}"
            if label != BM25:
                test = result.paired_tests[label, HEADLINE]
                low, high = test.interval
                line += f"  {test.difference:+.4f} [{low:+.4f}, {high:+.4f}], p {test.p_holm['randomization']:.4f}"
            print(f"{line}  {result.fit_seconds(label):.1f} s")
        ranked = [one for name in found.parts.test.query_ids if (one := found.rank(str(name))) is not None]
        places = np.array([[one.place(one.bm25), one.place(one.learned)] for one in ranked])
        first, reciprocal = (places == 1).mean(axis=0), (1.0 / places).mean(axis=0)
        error = np.diff(1.0 / places).std() / np.sqrt(len(places))
        print(
            f"among all documents, {len(ranked)} answers found: first {first[0]:.3f} by BM25, {first[1]:.3f} by "
            f"{SHOWN}; reciprocal rank {reciprocal[0]:.4f}, {reciprocal[1]:.4f} (difference ± {error:.4f})"
        )


if __name__ == "__main__":
    main()
