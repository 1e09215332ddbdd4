"""C: any model as one file of plain C99 that needs nothing but the C library."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ExportError
from gainful.exports import plain_json
from gainful.exports.describe import Described, Mixture
from gainful.exports.formats import WORDS_AT, Settings, Written, note_on_words, refuse_lists
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Inputs, Kernel, Linear, Net

COMPILE_SECONDS = 120.0
PER_LINE = 8
COMPILE = "cc -O2 -ffp-contract=off -c, link with -lm"
HARNESS = """
#include <stdio.h>
int main(void) {
    static double row[%(name)s_FEATURES];
    double score;
    FILE *rows = fopen("rows", "rb"), *scores = fopen("scores", "wb");  /* standard streams may be in text mode */
    if (!rows || !scores) return 1;
    while (fread(row, sizeof row, 1, rows) == 1) {
        score = %(name)s_score(row);
        fwrite(&score, sizeof score, 1, scores);
    }
    return fclose(scores) != 0;
}
"""


def write(described: Described, settings: Settings) -> Written:
    refuse_lists(described, "c")
    name = identifier(settings.name)
    source = _source(described, name).encode()
    compiler = find_compiler()
    use = f"double {name}_score(const double *x) scores one row; compile with {COMPILE}"
    notes = (use, *note_on_words(described, WORDS_AT))
    if compiler is None:
        notes += ("there is no C compiler here (CC, cc, gcc or clang): only the rules of the file were checked",)
        same = plain_json.write(described, settings)
        return Written({"": source}, lambda _, X: same.read(same.files, X), precision=1e-11, notes=notes)

    def read(files: Any, X: Array) -> list[Array]:
        return [compiled_scores(compiler, files[""], name, X.astype(np.float64))]

    return Written({"": source}, read, precision=1e-11, notes=notes)


def identifier(name: str) -> str:
    """The name as C can hold it."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return plain if re.match(r"[A-Za-z]", plain) else f"model_{plain}"


def find_compiler() -> str | None:
    """The C compiler of this machine, if it has one."""
    asked = os.environ.get("CC", "").split()
    return next(filter(None, map(shutil.which, [*asked[:1], "cc", "gcc", "clang"])), None)


def compiled_scores(compiler: str, source: bytes, name: str, X: Array) -> Array:
    """The scores that the compiled file gives these rows."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.c").write_bytes(source + (HARNESS % {"name": name}).encode())
        # Products and sums must not be contracted: the model rounds each.
        libraries = [] if sys.platform == "win32" else ["-lm"]
        _run([compiler, "-std=c99", "-O1", "-ffp-contract=off", "-o", "model", "model.c", *libraries], folder)
        Path(folder, "rows").write_bytes(np.ascontiguousarray(X).tobytes())
        _run([str(Path(folder, "model"))], folder)
        return np.fromfile(Path(folder, "scores"))


def _run(command: list[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=COMPILE_SECONDS, check=False)
    if done.returncode:
        first = (done.stderr.decode(errors="replace").splitlines() or ["no message"])[0]
        raise ExportError(f"{Path(command[0]).name} failed on the C file ({first}); nothing was written")


# -- writing -----------------------------------------------------------------------------------------------------------


def _source(described: Described, name: str) -> str:
    from gainful import __version__

    form = described.form
    parts = form.parts if isinstance(form, Mixture) else (form,)
    factors = form.factors if isinstance(form, Mixture) else (1.0,)
    sums = " + ".join(
        call if factor == 1.0 else f"{_number(factor)} * {call}"
        for call, factor in ((f"part{k}(x)", factor) for k, factor in enumerate(factors))
    )
    n, names = len(described.features), ",\n".join(f"    {_string(feature)}" for feature in described.features)
    tables = "\n".join(_part(part, k, n) for k, part in enumerate(parts))
    return f"""/* A ranker ({described.title}) as plain C99, made by gainful {__version__}.
 *
 *   double {name}_score(const double *x)
 *       the score of one row: {name}_FEATURES numbers in the order of {name}_features, NAN where missing
 *   void {name}_scores(const double *rows, long n, double *scores)
 *       the scores of n rows that lie one after another
 *
 * Higher scores rank first. Compile with {COMPILE}.
 */
#include <math.h>

#define {name}_FEATURES {n}

const char *const {name}_features[{name}_FEATURES] = {{
{names}
}};

{tables}
double {name}_score(const double *x) {{
    return {sums};
}}

void {name}_scores(const double *rows, long n, double *scores) {{
    long i;
    for (i = 0; i < n; i++) scores[i] = {name}_score(rows + i * {name}_FEATURES);
}}
"""


def _part(form: Any, k: int, n_features: int) -> str:
    if isinstance(form, Linear):
        plain = form.fold_inputs()
        body = f"""    double sum = {_number(plain.intercept)};
    int j;
    for (j = 0; j < {n_features}; j++) sum += weights{k}[j] * x[j];
    return sum;"""
        return _table(f"weights{k}", plain.weights) + _function(k, body)
    if isinstance(form, Net):
        return _net(form, k, n_features)
    if isinstance(form, Kernel):
        return _kernel(form, k, n_features)
    return _trees(form, k)


def _function(k: int, body: str) -> str:
    return f"static double part{k}(const double *x) {{\n{body}\n}}\n"


def _trees(form: Ensemble, k: int) -> str:
    """All splits in one table; a child < 0 is the leaf −child − 1, numbered over all trees."""
    trees = form.trees or (Tree.constant(0.0),)
    nodes: list[str] = []
    roots: list[int] = []
    leaves: list[float] = []
    categories: list[int] = []
    for tree in trees:
        first, first_leaf = len(nodes), len(leaves)
        roots.append(first if tree.n_splits else -first_leaf - 1)
        for split in range(tree.n_splits):
            sides = [int(c) + first if c >= 0 else int(c) - first_leaf for c in (tree.left[split], tree.right[split])]
            inside = tree.categories.get(split, ())
            among = f"{len(categories)}, {len(inside)}" if inside else "-1, 0"
            categories += list(inside)
            threshold = 0.0 if inside else float(tree.threshold[split])
            nodes.append(
                f"    {{{_number(threshold)}, {int(tree.feature[split])}, {sides[0]}, {sides[1]}, "
                f"{int(tree.nan_left[split])}, {among}}}"
            )
        leaves += tree.leaves.tolist()
    table = ",\n".join(nodes or ["    {0.0, 0, -1, -1, 0, -1, 0}"])
    walk = f"""    double sums[{form.n_outputs}] = {{0.0}};
    long tree;
    int at, c, left;
    for (tree = 0; tree < {len(trees)}; tree++) {{
        at = roots{k}[tree];
        while (at >= 0) {{
            const struct split{k} *s = splits{k} + at;
            double v = x[s->feature];
            if (v != v) left = s->missing_left;
            else if (s->category < 0) left = v <= s->threshold;
            else {{
                left = 0;
                for (c = 0; c < s->n_categories; c++) left |= v == categories{k}[s->category + c];
            }}
            at = left ? s->left : s->right;
        }}
        sums[tree % {form.n_outputs}] += leaves{k}[-at - 1];
    }}
{_link(form, k)}"""
    return (
        f"struct split{k} {{ double threshold; int feature, left, right, missing_left, category, n_categories; }};\n"
        f"static const struct split{k} splits{k}[] = {{\n{table}\n}};\n"
        + _table(f"roots{k}", roots, "int")
        + _table(f"categories{k}", categories or [0], "double")
        + _table(f"leaves{k}", leaves)
        + ("" if form.link is None else _table(f"relevance{k}", form.link.relevance))
        + ("" if form.link is None or form.link.kind == "softmax" else _table(f"start{k}", form.link.start))
        + _function(k, walk)
    )


def _link(form: Ensemble, k: int) -> str:
    if form.link is None:
        return "    return sums[0];"
    n = form.n_outputs
    if form.link.kind == "softmax":
        return f"""    double most = sums[0], total = 0.0, mean = 0.0, p;
    for (c = 1; c < {n}; c++) if (sums[c] > most) most = sums[c];
    for (c = 0; c < {n}; c++) {{
        p = exp(sums[c] - most);
        total += p;
        mean += p * relevance{k}[c];
    }}
    return mean / total;"""
    return f"""    double score = relevance{k}[0];
    for (c = 0; c < {n}; c++)
        score += (relevance{k}[c + 1] - relevance{k}[c]) / (1.0 + exp(-(sums[c] + start{k}[c])));
    return score;"""


ACTIVATIONS = {
    "relu": "z > 0.0 ? z : 0.0",
    "tanh": "tanh(z)",
    "sigmoid": "1.0 / (1.0 + exp(-z))",
    "silu": "z / (1.0 + exp(-z))",
}


def _net(form: Net, k: int, n_features: int) -> str:
    tables, width = [], max([n_features, *(len(b) for _, b in form.layers)])
    for place, (W, b) in enumerate(form.layers):
        tables += [_table(f"matrix{k}_{place}", W.ravel()), _table(f"bias{k}_{place}", b)]
    steps = []
    for place, (W, _) in enumerate(form.layers):
        n, m = W.shape
        act = (
            ""
            if place == 0
            else f"    for (i = 0; i < {n}; i++) {{ z = a[i]; a[i] = {ACTIVATIONS[form.activation]}; }}\n"
        )
        steps.append(f"""{act}    for (j = 0; j < {m}; j++) b[j] = bias{k}_{place}[j];
    for (i = 0; i < {n}; i++)
        for (j = 0; j < {m}; j++) b[j] += a[i] * matrix{k}_{place}[i * {m} + j];
    for (j = 0; j < {m}; j++) a[j] = b[j];""")
    body = f"""    double a[{width}], b[{width}], z = 0.0;
    int i, j;
{_load(form.inputs, k, n_features)}
{chr(10).join(steps)}
    (void)z;
    return a[0];"""
    return "".join(tables) + _shifts(form.inputs, k) + _function(k, body)


def _kernel(form: Kernel, k: int, n_features: int) -> str:
    settings = {name: _number(float(value)) for name, value in form.settings.items()}
    d = n_features
    of_pair = {
        "rbf": ("(a[j] - l[j]) * (a[j] - l[j])", f"exp(-{settings.get('gamma')} * t)"),
        "laplacian": ("fabs(a[j] - l[j])", f"exp(-{settings.get('gamma')} * t)"),
        "polynomial": (
            "a[j] * l[j]", f"pow({settings.get('gamma')} * t + {settings.get('coef0')}, {settings.get('degree')})"
        ),
        "linear": ("a[j] * l[j]", "t"),
        "cosine": ("a[j] * l[j]", "size > 0.0 && length > 0.0 ? t / (sqrt(size) * sqrt(length)) : 0.0"),
    }  # fmt: skip
    term, value = of_pair[form.kernel]
    body = f"""    double a[{d}], sum = 0.0, size = 0.0, length, t;
    long m;
    int i, j;
{_load(form.inputs, k, d)}
    for (j = 0; j < {d}; j++) size += a[j] * a[j];
    for (m = 0; m < {len(form.weights)}; m++) {{
        const double *l = landmarks{k} + m * {d};
        t = length = 0.0;
        for (j = 0; j < {d}; j++) {{ t += {term}; length += l[j] * l[j]; }}
        sum += weights{k}[m] * ({value});
    }}
    (void)size;
    return sum;"""
    tables = _table(f"landmarks{k}", np.asarray(form.landmarks).ravel()) + _table(f"weights{k}", form.weights)
    return tables + _shifts(form.inputs, k) + _function(k, body)


def _shifts(inputs: Inputs | None, k: int) -> str:
    if inputs is None or inputs.idle:
        return ""
    return _table(f"shift{k}", inputs.shift) + _table(f"scale{k}", inputs.scale)


def _load(inputs: Inputs | None, k: int, n_features: int) -> str:
    value = "x[i]" if inputs is None or inputs.idle else f"(x[i] - shift{k}[i]) / scale{k}[i]"
    return f"    for (i = 0; i < {n_features}; i++) a[i] = {value};"


def _table(name: str, values: Iterable[Any], kind: str = "double") -> str:
    texts = [str(int(value)) if kind == "int" else _number(float(value)) for value in values]
    lines = [", ".join(texts[i : i + PER_LINE]) for i in range(0, len(texts), PER_LINE)]
    return f"static const {kind} {name}[] = {{\n    " + ",\n    ".join(lines) + "\n};\n"


def _number(value: float) -> str:
    """Exactly this number: the shortest text that reads back as it."""
    if math.isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"
    return repr(float(value))


def _string(text: str) -> str:
    """A C string of these bytes in UTF-8."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return '"' + "".join(plain) + '"'
