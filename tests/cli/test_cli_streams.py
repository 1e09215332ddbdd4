"""Standard streams that are closed, full or no longer read; and text that would control a terminal."""

from __future__ import annotations

import ast
import errno
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import gainful
from gainful.cli import run
from gainful.errors.terminal import PLAIN, make_console, visible

GAINFUL = f"{shlex.quote(sys.executable)} -m gainful"

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def shell(line: str, folder: Path) -> tuple[str, str]:
    """Exit codes of all commands of a pipe, and what was printed on stderr."""
    script = f"{line.replace('gainful', GAINFUL, 1)}; echo ${{PIPESTATUS[*]}} > codes"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)
    return (folder / "codes").read_text().strip(), done.stderr


@pytest.mark.parametrize(
    ("line", "codes", "stderr"),
    [
        ("gainful rankers | true", "0 0", ""),
        ("gainful rankers --json | true", "0 0", ""),
        ("gainful rankers >&-", "0", ""),
        ("gainful rankers <&- >&- 2>&-", "0", ""),
        ("gainful rankers no-such-ranker 2>&-", "2", ""),
        pytest.param(
            "gainful rankers > /dev/full",
            "2",
            "gainful: standard output: cannot be written: No space left on device\n",
            marks=needs_full,
        ),
        pytest.param(
            "gainful --version > /dev/full",
            "2",
            "gainful: standard output: cannot be written: No space left on device\n",
            marks=needs_full,
        ),
        pytest.param("gainful rankers no-such-ranker 2> /dev/full", "2", "", marks=needs_full),
    ],
)
def test_streams_that_fail(tmp_path, line, codes, stderr):
    assert shell(line, tmp_path) == (codes, stderr)


@pytest.mark.parametrize("more", ["2>&1 | true", "> /dev/full 2>&1", ">&- 2>&-"])
def test_a_training_does_not_depend_on_its_progress_being_read(tmp_path, more):
    gainful.write(gainful.make_artificial(9, n_docs=5, n_features=3), tmp_path / "d.txt")
    shell(f"gainful train regression d.txt -o m {more}", tmp_path)
    assert gainful.load(tmp_path / "m").n_features_in_ == 3


def test_a_report_is_written_though_nobody_reads_the_table(tmp_path):
    gainful.write(gainful.make_artificial(12, n_docs=5, n_features=3), tmp_path / "d.txt")
    shell("gainful compare d.txt --rankers regression --report r | true", tmp_path)
    assert any((tmp_path / "r").iterdir())


# -- text from outside -------------------------------------------------------------------------------------------------

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202eb\u2066\u2028c\x7f\ud800"
SHOWN = r"a\x1b[2J\x1b]0;title\x07\x9b31m\u202eb\u2066\u2028c\x7f\ud800"


def test_control_characters_are_written_as_escapes():
    assert visible(HOSTILE) == SHOWN
    assert visible("täglich → 日本 \U0001f600\ttab\n") == "täglich → 日本 \U0001f600\ttab\n"


def test_everything_on_a_console_is_visible(capsys):
    from rich.table import Table
    from rich.text import Text

    console = make_console(width=200)
    table = Table(HOSTILE)
    table.add_row(Text(HOSTILE))
    for thing in (HOSTILE, Text(HOSTILE), table):
        console.print(thing)
    printed = capsys.readouterr().out
    assert printed.count(SHOWN.replace(r"\x07", "")) == 2  # Rich itself drops the bell; a narrow cell cuts the text
    assert not set("\x1b\x07\x9b\u202e\u2066\u2028\x7f") & set(printed)


def test_names_and_ids_do_not_reach_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = "x\x1b[31m\u202e"
    lines = [f"{i % 2} qid:{bad}{i // 4} 1:{i} #docid = {bad}{i}" for i in range(12)]
    Path(f"{bad}.txt").write_text(f'# gainful feature_names = ["{bad}"]\n' + "\n".join(lines) + "\n")
    Path("d.txt").write_text("\n".join(lines) + "\n")
    for words, code in (
        (["data", "info", f"{bad}.txt"], None),
        (["data", "info", f"{bad}none.txt"], 2),
        (["train", "regression", "d.txt", "-o", bad], 0),
        (["train", bad, "d.txt", "-o", "m"], 2),
        (["evaluate", bad, "d.txt", "--per-query"], 0),
        (["explain", bad, "d.txt", "--query", f"{bad}0"], 0),
        (["predict", bad, f"{bad}/none"], 2),
        (["rankers", f"--{bad}"], 2),
    ):
        found = run(words)
        printed = "".join(capsys.readouterr())
        assert code is None or found == code, printed
        assert not {"\x1b", "\u202e"} & set(printed), (words, printed)
        assert printed


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_shows_its_ids_to_a_terminal_and_writes_them_as_they_are(terminal, tmp_path, capsys, monkeypatch):
    rows = "".join(f"{i % 2} qid:{i // 4} 1:{i} #docid = x\x1b[31m{i}\n" for i in range(12))
    (tmp_path / "d.txt").write_text(rows)
    assert run(["train", "regression", str(tmp_path / "d.txt"), "-o", str(tmp_path / "m")]) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    assert run(["predict", str(tmp_path / "m"), str(tmp_path / "d.txt"), "--run", "a"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("x\\x1b[31m" if terminal else "x\x1b[31m") == 12


def test_results_print_names_with_their_control_characters_shown():
    data = gainful.make_artificial(20, n_docs=5, n_features=2, seed=1).replace(feature_names=(HOSTILE, "b"))
    model = gainful.ranker("regression").fit(data)
    one, pair = gainful.explain(model, data)[0], gainful.explain_pair(model, data.X[0], data.X[1])
    lost = gainful.permutation_importance(model, data, repeats=2)
    means = gainful.compare({HOSTILE: model, "b": gainful.ranker("regression", alpha=9.0)}, data)
    for text in (str(one), str(pair), str(lost), means.to_markdown()):
        assert visible(text) == text
        assert "x1b" in text


# -- streams of other systems ------------------------------------------------------------------------------------------


def is_ours(sign: str) -> bool:
    """Drawings and what is never printed as it is do not count."""
    return sign.encode("cp1252", "ignore") == b"" and visible(sign) == sign and not "\u2500" <= sign <= "\u259f"


def texts(path: Path) -> list[str]:
    """The strings of a module, without its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_every_sign_of_ours_keeps_its_meaning_without_unicode():
    modules = [path for path in Path(gainful.__file__).parent.rglob("*.py") if not path.read_bytes().isascii()]
    signs = {sign for path in modules for text in texts(path) for sign in text if is_ours(sign)}
    assert len(signs) > 5
    assert {sign for sign in signs if b"?" in sign.encode("cp1252", PLAIN)} == set()
    assert "−0.12 ≥ −0.2".encode("cp1252", PLAIN) == b"-0.12 >= -0.2"
    assert "日".encode("cp1252", PLAIN) == b"?"


def test_a_closed_pipe_of_windows_ends_a_command_quietly(monkeypatch, capsys):
    def fail(text):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(sys.stdout, "write", fail)
    assert run(["rankers", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_narrow_terminal_cuts_no_word_of_the_rankers(capsys, monkeypatch):
    monkeypatch.setattr("gainful.cli.console.WIDTH_WITHOUT_TERMINAL", 40)
    assert run(["rankers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert not any("…" in line for line in lines)
    start = next(line for line in lines if "regression" in line).index("Ridge")
    printed = "".join("".join(line[start:].split()) for line in lines)
    assert all("".join(entry.summary.split()) in printed for entry in gainful.RANKERS.values())
