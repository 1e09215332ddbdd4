"""Commands run in this process: what they print, and how they refuse."""

from __future__ import annotations

from gainful.cli import run


def call(capsys, *arguments):
    """Exit code, stdout and stderr of one command."""
    capsys.readouterr()
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    """The one line that a command refuses with."""
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    # with an empty kernel cache, a slow machine says first that it compiles
    lines = [line for line in err.splitlines() if not line.startswith("compiling kernels for first use")]
    assert len(lines) == 1, err
    assert lines[0].startswith("gainful: ")
    return lines[0]
