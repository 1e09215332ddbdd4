"""The Dockerfile: what it copies, installs and runs exists, and its image serves as a user without rights."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import typer

from gainful.cli.app import app
from gainful.serve.middleware import OPEN

ROOT = Path(__file__).parents[2]


def steps():
    """(instruction, rest) of each step, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line and not line.startswith("#")]


def of(instruction):
    return [rest for name, rest in steps() if name == instruction]


def test_it_copies_what_the_package_is_built_from_and_nothing_else():
    copied = {source for rest in of("COPY") for source in rest.split()[:-1]}
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", "hatch_build.py", "README.md", *project["project"]["license-files"]}
    needed |= {path.split("/")[0] for path in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    assert needed <= copied
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert kept == copied


def test_it_installs_the_tested_versions_of_the_server():
    (install,) = (rest for rest in of("RUN") if "pip install" in rest)
    words = shlex.split(install.split("&&")[0])
    constraints = words[words.index("--constraint") + 1]
    extras = re.fullmatch(r"\.\[(.+)\]", words[-1])[1].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extras == ["serve"]
    pinned = {line.split("==")[0].lower() for line in (ROOT / constraints).read_text().splitlines() if "==" in line}
    wanted = project["dependencies"] + [one for extra in extras for one in project["optional-dependencies"][extra]]
    assert {re.match(r"[\w-]+", one)[0].lower() for one in wanted} <= pinned
    version = re.search(r"python:(\d+\.\d+)", of("ARG")[0])[1]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    # Only the package index: no other way to the network.
    assert not any(re.search(r"\b(apt|apt-get|apk|curl|wget|git)\b", rest) for rest in of("RUN"))
    assert not any("://" in rest for name, rest in steps() if name in ("ADD", "COPY", "RUN"))


def test_what_it_runs_exists():
    commands = typer.main.get_command(app).commands
    assert of("USER") == ["gainful"]
    names = [name for name, _ in steps()]
    assert names.index("USER") < names.index("ENTRYPOINT")
    for run in of("RUN"):
        if run.startswith("gainful "):
            assert shlex.split(run)[1] in commands
    program, command, *options = json.loads(of("ENTRYPOINT")[0])
    assert (program, command) == ("gainful", "serve")
    known = {name for parameter in commands["serve"].params for name in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= known
    port = options[options.index("--port") + 1]
    assert of("EXPOSE") == [port]
    checked = re.search(rf"http://127\.0\.0\.1:{port}(/\w+)", of("HEALTHCHECK")[0])[1]
    assert checked in OPEN, "without a token the check would always fail"
    token = next(parameter for parameter in commands["serve"].params if parameter.name == "token")
    assert token.envvar in (ROOT / "Dockerfile").read_text()
    assert token.envvar in (ROOT / "docs" / "serving.md").read_text()
