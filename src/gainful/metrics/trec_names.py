"""The names that trec_eval has for measures, such as ``ndcg_cut_10``, and ours, such as ``ndcg@10``."""

from __future__ import annotations

import re

SPEC = re.compile(r"\s*(\w+?)(?:[_.](\d+(?:\.\d+)?))?\s*(?:\((.*)\))?\s*", re.DOTALL)
#: Without a number.
NAMES = {
    "recip_rank": "mrr",
    "11pt_avg": "iprec-avg",
    "bing": "bin-g",
    "rbp_resid": "rbp-resid",
    "rndcg": "r-ndcg",
    "ndcg_rel": "ndcg-rel",
    "set_p": "set-p",
    "set_recall": "set-recall",
    "set_f": "set-f1",
    "set_map": "set-map",
    "set_relative_p": "set-relative-p",
    "num_ret": "num-ret",
    "num_rel": "num-rel",
    "num_rel_ret": "num-rel-ret",
    "num_nonrel_judged_ret": "num-nonrel-judged-ret",
}
#: With a number, and the conventions that go with the name.
NUMBERED = {
    "p": ("p@{}", ""),
    "recall": ("recall@{}", ""),
    "ndcg_cut": ("ndcg@{}", ""),
    "map_cut": ("map@{}", ""),
    "success": ("hit@{}", ""),
    "unj": ("unj@{}", ""),
    "iprec_at_recall": ("iprec@{}", ""),
    "relative_p": ("p@{}", "divisor=relevant"),
    "rprec_mult": ("rprec", "times={}"),
}


def our_name(spec: str) -> str:
    """The spec by our name if it has one of trec_eval's, else as it is. Conventions in brackets stay."""
    match = SPEC.fullmatch(spec)
    if match is None:
        return spec
    name, number, inside = match[1].lower(), match[2], match[3]
    if number is None:
        head, fixed = NAMES.get(name), ""
    else:
        head, fixed = NUMBERED.get(name, (None, ""))
        number = f"{float(number):.15g}"
    if head is None:
        return spec
    conventions = ", ".join(part for part in (fixed.format(number), inside) if part)
    return head.format(number) + (f"({conventions})" if conventions else "")
