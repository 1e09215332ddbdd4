"""Scripts in processes of their own that need not import everything again.

Imports are most of what a short command costs. A prepared process has done them and becomes the parent of every script:
a fork of it, with a working folder, standard streams, signals and an exit code of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# A request is one line: the folder of the streams, the working folder, SCRIPT and WORDS. The answer is the exit code,
# once the script has ended. A script ends without taking the interpreter apart, which would copy all of its memory.
SERVER = """
import contextlib, gc, importlib, io, json, os, pkgutil, sys
import gainful.cli, pyarrow.parquet
for module in pkgutil.iter_modules(gainful.cli.__path__, "gainful.cli."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
gainful.LambdaMART(n_trees=1, n_jobs=1).fit(gainful.make_artificial(4))  # imports the rest
with contextlib.redirect_stdout(io.StringIO()):
    gainful.cli.run(["rankers", "regression"])
gc.freeze()
for line in sys.stdin:
    streams, folder, script, words = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for name, stream in (("stdout", 1), ("stderr", 2)):
    os.dup2(os.open(os.path.join(streams, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.chdir(folder)
sys.argv = ["-c", *words]
try:
    exec(compile(script, "<string>", "exec"))
except SystemExit as ended:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended.code or 0)
"""


class PreparedPython:
    """Runs scripts, one after the other, as ``python -c SCRIPT WORDS…`` would."""

    def __init__(self, streams: Path) -> None:
        self.streams = streams
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, script: str, words: list, folder: Path | str = ".") -> subprocess.CompletedProcess[str]:
        request = json.dumps([str(self.streams), os.path.abspath(folder), script, list(map(str, words))])
        print(request, file=self.process.stdin, flush=True)
        code = int(self.process.stdout.readline())
        out, err = ((self.streams / name).read_text() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(words, code, out, err)

    def close(self) -> None:
        self.process.communicate()
