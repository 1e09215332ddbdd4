"""The same cells in every look, and text from outside spelled out in each."""

from __future__ import annotations

import io
import json
import re

import pytest
from comparison_examples import made_up
from rich.console import Console

import gainful
from gainful.comparison import render
from gainful.comparison.tables import differences_table, means_table, seconds
from gainful.report.parts import html_table

NASTY = "50%_a & <b>|x|*y* $z^{2}$ \\frac [k] #1 `c` ~"


@pytest.fixture(scope="module")
def found():
    return made_up(["base", "middle", "best"], n_queries=50)


def test_sheets_hold_the_figures_of_the_json(found):
    stored = found.to_dict()
    table = means_table(found)
    for row in table.rows:
        told = stored["rankers"][row[0].value]
        low, high = told["intervals"]["ndcg@10"]
        assert row[1].value == told["means"]["ndcg@10"]
        assert row[2].text == f"[{low:.3f}, {high:.3f}]"
        assert [cell.value for cell in row[3:5]] == [told["means"][name] for name in ("ndcg@1", "map")]
        assert row[5].value == told["fit_seconds"]
    tests = {(t["ranker"], t["measure"]): t for t in stored["against_baseline"]}
    for row in differences_table(found).rows:
        t = tests[row[0].value, "ndcg@10"]
        assert row[1].value == t["difference"]
        assert row[2].text == "[{:+.3f}, {:+.3f}]".format(*t["interval"])
        assert row[3].value == t["effect_size"]
        assert row[4].text == f"{t['wins']}/{t['ties']}/{t['losses']}"
        assert t["wins"] + t["ties"] + t["losses"] == t["queries"] == 50
        wilcoxon = tests[row[0].value, "sum of ndcg@1…10"]["p_holm"]["wilcoxon"]
        assert [cell.value for cell in row[5:]] == [wilcoxon, t["p_holm"]["t"], t["p_holm"]["randomization"]]


def test_every_look_shows_every_mean_and_mark(found):
    looks = {
        "text": found.table(),
        "markdown": found.to_markdown(),
        "latex": found.to_latex(),
        "html": found._repr_html_(),
    }
    marks = {"text": "▲", "markdown": "▲", "latex": r"\rlap{$^{\uparrow}$}", "html": ">▲<"}
    better = sum(cell.verdict == 1 for row in means_table(found).rows for cell in row)
    assert better > 0
    for name, text in looks.items():
        body = text.split("against")[0] if name != "latex" else text.split("midrule")[1]
        assert body.count(marks[name]) == better, name
        for label in found.labels:
            for metric in ("ndcg@10", "ndcg@1", "map"):
                assert f"{found.mean(label, metric):.4f}" in body, name


def test_the_best_mean_is_set_off(found):
    value = f"{max(found.mean(label, 'map') for label in found.labels):.4f}"
    assert f"**{value}**" in found.to_markdown()
    assert rf"\textbf{{{value}}}" in found.to_latex()


def test_a_narrow_terminal_gets_fewer_columns(found):
    wide, narrow = found.table(120), found.table(80)
    assert "95 % interval" in wide
    assert "95 % interval" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert f"{found.mean('best', 'ndcg@10'):.4f}" in narrow


def test_one_line_tells_the_marks(found):
    line = (
        "▲ better, ▼ worse than base at level 0.05 (randomisation test, Holm-corrected over the rankers; other metrics "
        "only for rankers marked on ndcg@10, and corrected over these metrics too); {}: best mean."
    )
    assert line.format("*") in " ".join(found.table().split())
    assert line.format("bold") in found._repr_html_()
    one = made_up(["a", "b"], metrics=found.metrics[:1])
    assert "Holm-corrected over the rankers); *: best mean." in " ".join(one.table().split())


def test_text_without_bold_has_a_star_at_the_best(found):
    best = f"{max(found.mean(label, 'map') for label in found.labels):.4f}"
    assert f"{best}*" in found.table()
    assert found.table().count("*") == len(found.metrics) + 1  # and the legend
    coloured = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="standard")
    coloured.print(render.renderable(found))
    assert "*" not in coloured.file.getvalue()
    assert "bold: best mean" in coloured.file.getvalue()


def test_a_narrow_table_breaks_labels_between_words_only():
    labels = ["regression", "structured-svm-tight", "coordinate-ascent:n_restarts=2", "mcrank-regression:n_trees=60"]
    words = {piece for label in labels for piece in re.findall(r"[^-:]+[-:]?", label)}
    lines = made_up(labels, n_queries=50).table(80).splitlines()
    assert max(map(len, lines)) <= 80
    begin = next(i for i, line in enumerate(lines) if "───" in line and i > 8)  # the second table
    column = [re.split(r"\s{2,}", line.strip())[0] for line in lines[begin + 1 : lines.index("", begin)]]
    assert "structured-svm-" in column
    assert all(piece in words for line in column for piece in re.findall(r"[^-:]+[-:]?", line))


def test_the_p_value_that_marks_is_shown(found):
    alone = made_up(["base", "middle", "best"], n_queries=50, tests=("wilcoxon",))
    table = differences_table(alone)
    assert table.head[-2:] == ("p Wilcoxon", "p Wilcoxon Σndcg")
    for row in table.rows:
        marking, whole = row[-2:]
        assert marking.value == alone.paired_tests[row[0].value, "ndcg@10"].p_holm["wilcoxon"]
        assert whole.value == alone.paired_tests[row[0].value, "sum of ndcg@1…10"].p_holm["wilcoxon"]
        assert (row[1].verdict != 0) == (marking.value <= 0.05)
    assert "p Wilcoxon" not in differences_table(found).head
    assert differences_table(found).head[-3:] == ("p Wilcoxon Σndcg", "p paired t", "p random.")


def test_labels_are_spelled_out_for_markdown_and_latex():
    found = made_up([NASTY, "b"], n_queries=8)
    row = next(line for line in found.to_markdown().splitlines() if line.startswith("| 50%"))
    cells = re.split(r"(?<!\\)\|", row)  # unescaped bars are borders
    assert len(cells) == 6 + 2
    assert re.sub(r"\\(.)", r"\1", cells[1]).strip() == f"{NASTY} (baseline)"
    latex = found.to_latex()
    for spelled in (r"50\%\_a \& \textless{}b\textgreater{}", r"\$z\textasciicircum{}\{2\}\$", r"\textbackslash{}frac"):
        assert spelled in latex
    rows = latex.split("\\midrule")[1].split("\\bottomrule")[0]
    assert not re.search(r"\\\\\s*\[", rows)  # LaTeX would take it for the height of the row before
    without = re.sub(r"\\textasciicircum\{\}", "", re.sub(r"\\[{}\\$&#%_]", "", latex))
    assert without.count("{") == without.count("}")


def test_the_latex_table_has_as_many_cells_as_columns(found):
    latex = found.to_latex()
    columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", latex).group(1))
    lines = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 1 + len(found.labels)
    assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {columns}
    for rule in ("toprule", "midrule", "bottomrule"):
        assert latex.count(rule) == 1


def test_texts_are_returned_and_written(found, tmp_path):
    for name in ("to_json", "to_markdown", "to_latex", "to_html"):
        text = getattr(found, name)(tmp_path / name)
        assert (tmp_path / name).read_text() == text == getattr(found, name)()
    page = found.to_report(tmp_path / "new" / "folder")
    assert {file.name for file in page.parent.iterdir()} == {"report.html", "table.md", "table.tex", "comparison.json"}
    assert json.loads((page.parent / "comparison.json").read_text()) == found.to_dict()


def test_undefined_means_are_shown_last(found):
    skip = gainful.metric("map", empty="skip")
    strange = made_up(["a", "b"], n_queries=5)
    for label in "ab":
        strange.runs[label][0].values[strange.headline][:] = float("nan")
    assert strange.by_mean == ["a", "b"]
    assert "nan" not in strange.table()
    assert strange.cautions == ("ndcg@10 is undefined on every test query, so there is nothing to compare on it.",)
    assert strange.to_dict()["rankers"]["a"]["means"]["ndcg@10"] is None
    assert "<main>" in strange.to_html()
    assert skip.name == "map"


def test_seconds():
    assert [seconds(value) for value in (0.0004, 0.012, 0.99, 12.34)] == ["0.4 ms", "12 ms", "990 ms", "12.3 s"]


def test_html_cells_carry_the_full_figure(found):
    html = html_table(means_table(found))
    assert f'data-value="{found.mean("best", "map")}"' in html
