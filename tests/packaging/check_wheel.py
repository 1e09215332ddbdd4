"""Does the wheel work alone? ``python tests/packaging/check_wheel.py dist/*.whl [--newest]`` (``make dist-check``).

Looks at what is inside, then installs it with nothing but its dependencies into an empty environment outside the
repository, and runs there what the README says: its Python and its commands. ``--newest`` takes the newest
dependencies, not those of constraints.txt. Not named as a test: it takes minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gainful"
ASSETS = {".pyi", ".css", ".js", ".html", ".typed", ".json", ".svg", ".txt"}
COMMANDS = ("gainful --version", "gainful rankers", "gainful demo --no-open")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEED_AN_EXTRA = {"serve": "gainful serve model.gainful", "export": "gainful export model.gainful --to onnx -o m.onnx"}
NAMES = "import gainful; [getattr(gainful, name) for name in gainful.__all__]; print(gainful.__file__)"


def main(wheel: Path, newest: bool) -> None:
    started = time.perf_counter()
    look_inside(wheel)
    with tempfile.TemporaryDirectory() as folder:
        python = install(wheel, Path(folder) / "environment", newest)
        print(f"installed ({time.perf_counter() - started:.0f} s)")
        work = Path(folder) / "work"
        work.mkdir()
        try_out(python, work)
    print(f"{wheel.name} works alone ({time.perf_counter() - started:.0f} s)")


def look_inside(wheel: Path) -> None:
    """Every module and asset of the package is in the wheel, nothing else is, and the metadata is whole."""
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        info = next(name for name in held if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(info).decode())
    inside = {name for name in held if ".dist-info/" not in name}
    wanted = {
        f"gainful/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.suffix in {".py", *ASSETS} and "__pycache__" not in path.parts
    }
    expect(inside == wanted, f"not as in src: missing {sorted(wanted - inside)}, too many {sorted(inside - wanted)}")
    licence = info.replace("METADATA", "licenses/LICENSE")
    expect(licence in held, "the licence is missing")
    expect(metadata["License-Expression"] == "Apache-2.0", "the licence is not named")
    expect(metadata["Requires-Python"] == ">=3.11", "the wrong Python is required")
    extras = set(metadata.get_all("Provides-Extra"))
    expect({"neural", "serve", "export", "tune", "docs", "dev"} <= extras, f"the extras are {sorted(extras)}")
    core = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    expect(not any(line.startswith(("torch", "fastapi", "onnx", "optuna")) for line in core), f"the core needs {core}")
    readme = metadata.get_payload()
    expect("# gainful" in readme, "the README is missing")
    dead = [target for target in re.findall(r"\]\(([^)]*)\)", readme) if not target.startswith(("https://", "#"))]
    expect(not dead, f"the README links to {dead[:3]}, which only the repository has")
    expect(metadata["Author"] is not None, "the authors are not named")
    expect(any(line.startswith("Source, https://") for line in metadata.get_all("Project-URL", [])), "no address")


def install(wheel: Path, where: Path, newest: bool) -> Path:
    """A new environment that holds the wheel and what it depends on; its Python."""
    venv.create(where, with_pip=True)
    python = where / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    versions = [] if newest else ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "install", "--quiet", *versions, str(wheel)], check=True)
    subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)
    return python


def try_out(python: Path, work: Path) -> None:
    """The command line and every public name, without anything of the repository in reach."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**kept, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [line for language, text in blocks if not language for line in text.splitlines()]
    promised = [line.partition("  #")[0].strip() for line in lines if line.startswith("gainful ")]
    promised = [line for line in promised if line not in NEED_AN_EXTRA.values()]
    expect(len(promised) > 5, f"the README has no more commands than {promised}")
    for command in (*COMMANDS, *promised):
        run(command, work, environment)
    (work / "readme.py").write_text("".join(text for language, text in blocks if language == "python"))
    run(f"{python} readme.py", work, environment)
    expect((work / "report" / "report.html").stat().st_size > 10_000, "the report is empty")
    expect("<style>" in (work / "report" / "report.html").read_text(encoding="utf-8"), "the report has no style")
    for extra, command in NEED_AN_EXTRA.items():
        done = run(command, work, environment, code=2)
        expect(f"gainful[{extra}]" in done.stderr, f"{command} does not say what to install: {done.stderr}")
    done = run("gainful reproduce artificial", work, environment, code=2)
    expect("from a checkout" in done.stderr, f"gainful reproduce does not say where it runs: {done.stderr}")
    where = subprocess.run([str(python), "-c", NAMES], cwd=work, env=environment, capture_output=True, text=True)
    expect(where.returncode == 0, f"a public name cannot be loaded: {where.stderr}")
    expect(Path(where.stdout.strip()).is_relative_to(python.parents[1]), f"gainful came from {where.stdout.strip()}")


def run(command: str, work: Path, environment: dict[str, str], code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, shell=True, cwd=work, env=environment, capture_output=True, text=True)
    expect(done.returncode == code, f"{command}: exit code {done.returncode}, not {code}\n{done.stderr}")
    return done


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"check_wheel: {otherwise}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--newest"]):
        sys.exit("usage: check_wheel.py WHEEL [--newest]")
    main(Path(sys.argv[1]).resolve(), newest=len(sys.argv) == 3)
