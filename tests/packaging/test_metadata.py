"""What the package says of itself: links, requirements, what the source distribution holds, ends of lines."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from lowest_versions import declared_by
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gainful"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, HATCH = PYPROJECT["project"], PYPROJECT["tool"]["hatch"]
EXTRAS = PROJECT["optional-dependencies"]

# -- links -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hook():
    """hatch_build.py as the build loads it, without the build's own package."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, interface.__name__, interface)
        spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(hook):
    """What the hook adds to the metadata."""
    metadata: dict = {}
    config = HATCH["metadata"]["hooks"]["custom"]
    hook.CustomMetadataHook.update(SimpleNamespace(root=str(ROOT), config=config), metadata)
    return metadata


def targets(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]*)\)", text)


def test_every_link_of_the_readme_works_away_from_the_repository(made):
    source = HATCH["metadata"]["hooks"]["custom"]["source"]
    text = made["readme"]["text"]
    written, absolute = targets((ROOT / "README.md").read_text()), targets(text)
    assert len(written) == len(absolute) > 50
    for before, after in zip(written, absolute, strict=True):
        assert after.startswith(("https://", "#")), before
        place = re.fullmatch(rf"{re.escape(source)}/(raw|blob)/HEAD/([^#]*)(#.*)?", after)
        assert place is None or (ROOT / place[2]).exists(), after
        assert place is None or (place[1] == "raw") == (Path(place[2]).suffix in (".png", ".svg")), after
    assert re.sub(r"\]\([^)]*\)", "", text) == re.sub(r"\]\([^)]*\)", "", (ROOT / "README.md").read_text())


def test_what_leads_somewhere_already_stays(hook):
    text = "[a](https://x.y/z) [b](#part) `f[i](x)` [c](mailto:a@b.c)"
    assert hook.with_absolute_links(text.replace("`f[i](x)` ", ""), "S") == text.replace("`f[i](x)` ", "")
    assert (
        hook.with_absolute_links("![a](b.png) [c\nd](e.md#f)", "S")
        == "![a](S/raw/HEAD/b.png) [c\nd](S/blob/HEAD/e.md#f)"
    )


def test_the_address_of_the_repository_is_written_once(made):
    source = HATCH["metadata"]["hooks"]["custom"]["source"]
    assert all(address.startswith(source) for address in made["urls"].values())
    assert set(made) == set(PROJECT["dynamic"])
    files = {*ROOT.glob("*.*"), *(ROOT / "docs").glob("*.md"), *SOURCE.rglob("*.py")} - {ROOT / "pyproject.toml"}
    assert [path.name for path in files if path.is_file() and source in path.read_text(errors="ignore")] == []


# -- requirements ------------------------------------------------------------------------------------------------------

NAMES = {"sklearn": "scikit-learn"}  # of packages that are imported by another name
NEED_NO_REQUIREMENT = {
    "reproduction": "a folder of the checkout",
    "triton": "comes with PyTorch's builds for GPUs, and is looked for first",
    "IPython": "runs the notebook that is drawn in",
    "mlflow": "whoever calls the integration has it",
    "catboost": "whoever compares an estimator of it has it",
}
OPTIONAL = ("neural", "xgboost", "tune", "plot", "export")  # asked for by name where they are missing


@cache
def imports(path: Path) -> set[str]:
    """The packages that a module imports, at once or later, which neither Python nor we bring."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            names |= {one.value for one in node.args if isinstance(one, ast.Constant)}
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"gainful"}


def required(*groups: list[str]) -> set[str]:
    return {Requirement(one).name for group in groups for one in group}


CORE = required(PROJECT["dependencies"])
SERVER, CLUSTER = CORE | required(EXTRAS["serve"]), CORE | required(EXTRAS["dask"])
ELSEWHERE = CORE | required(*(EXTRAS[name] for name in OPTIONAL))


def may_import(path: Path) -> set[str]:
    """What is installed wherever this module is used, and the extras that are asked for where they are missing."""
    folder = path.relative_to(SOURCE).parts
    return SERVER if folder[0] == "serve" else CLUSTER if "cluster" in folder else ELSEWHERE


def test_every_package_that_is_imported_is_required_where_it_is():
    undeclared = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        for name in imports(path) - set(NEED_NO_REQUIREMENT)
        if NAMES.get(name, name) not in may_import(path)
    }
    assert undeclared == set()


def test_what_needs_no_requirement_is_imported_and_not_required():
    imported = set().union(*map(imports, SOURCE.rglob("*.py")))
    assert set(NEED_NO_REQUIREMENT) <= imported
    others = (group for name, group in EXTRAS.items() if name not in ("dev", "tools", "docs", "soak"))
    assert not set(NEED_NO_REQUIREMENT) & required(PROJECT["dependencies"], *others)


LINUX = {"sys_platform": "linux", "platform_machine": "x86_64"}
WITHOUT_WHEELS = [
    ({"sys_platform": "darwin", "platform_machine": "arm64"}, {"xgboost-cpu", "triton"}),
    ({"sys_platform": "linux", "platform_machine": "aarch64"}, {"pytrec-eval-terrier", "ir-measures", "triton"}),
    ({"sys_platform": "win32", "platform_machine": "AMD64"}, {"triton"}),
]


def for_development(machine: dict[str, str]) -> set[str]:
    every = map(Requirement, declared_by(EXTRAS, ["dev"]))
    return {one.name for one in every if one.marker is None or one.marker.evaluate({"extra": "dev", **machine})}


@pytest.mark.parametrize(
    ("machine", "absent"), WITHOUT_WHEELS, ids=lambda one: one.get("sys_platform", "") if isinstance(one, dict) else ""
)
def test_development_asks_only_for_what_has_wheels(machine, absent):
    asked = for_development(machine)
    assert not asked & absent
    assert for_development(LINUX) - asked == absent
    assert asked & {"xgboost", "xgboost-cpu"}


# -- files -------------------------------------------------------------------------------------------------------------


def git(*words: str, given: str | None = None) -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not in a checkout")
    command = ["git", "-c", "safe.directory=*", *words]
    return subprocess.run(
        command, cwd=ROOT, input=given, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_the_source_distribution_has_all_that_is_in_the_repository():
    brought = {path.strip("/") for path in HATCH["build"]["targets"]["sdist"]["include"]}
    brought |= {"pyproject.toml", ".gitignore"}  # always
    assert {path.split("/")[0] for path in git("ls-files")} <= brought
    assert all((ROOT / path).exists() for path in brought)


def test_lines_end_with_lf_wherever_the_repository_is_taken():
    paths = git("ls-files")
    attributes: dict[str, dict[str, str]] = {}
    for line in git("check-attr", "--stdin", "text", "eol", given="\n".join(paths)):
        path, name, value = line.rsplit(": ", 2)
        attributes.setdefault(path, {})[name] = value
    for path in paths:
        content = (ROOT / path).read_bytes()
        if b"\0" in content or b"\r" in content:
            assert attributes[path]["text"] == "unset", f"{path} is not text"
        else:
            assert attributes[path]["text"] == "unset" or attributes[path]["eol"] == "lf", path
