"""Kernels and helpers: compiled once for each combination of types, and kept on disk."""

from __future__ import annotations

import operator
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.typing.context import BaseContext

import gainful
from gainful.compute.compiled import helper, kernel, kernel_files

MOST = 3

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@helper
def _first(values, n):
    total = 0.0
    for i in range(n):
        total += values[i]
    return total


@kernel
def first_sums(values, n):
    return _first(values, n) + _first(values, MOST) + _first(values, 2)


@kernel
def flat_sums(values, n):
    total = 0.0
    for i in range(n):
        total += values[i] + values[n - i] * values[n + i]
    return total


def test_a_constant_is_compiled_as_any_other_number():
    compiled_here = numba.njit(first_sums.py_func)  # the kernel itself may come from the disk
    assert compiled_here(np.ones(5), 4) == 9.0
    assert len(_first.signatures) == 1


def test_a_helper_is_compiled_alike_for_every_kernel():
    """numba would compile it by the rules of the first kernel that calls it, and the last digits would follow."""
    assert (_first.targetoptions["fastmath"], _first.targetoptions["error_model"]) == (False, "python")


@helper(fastmath=True)
def _loose(x):
    return x / 3.0 + x * x


@kernel
def mixed(values, n):
    total = 0.0
    for i in range(n):
        total += values[i] / 3.0
        total += _loose(values[i])
        total += values[i + 1] * values[i + 1] - values[n - i]
    return total


def test_kernels_have_the_machine_code_of_numbas_own_compiler():
    signature = "float64(float64[::1], int64)"
    own, ours = numba.njit(nogil=True, no_cfunc_wrapper=True), kernel(cache=False)
    codes = []
    for decorate in (own, ours):
        compiled = decorate(mixed.py_func)
        compiled.compile(signature)
        (assembly,) = compiled.inspect_asm().values()
        codes.append(re.findall(r"^\t(\w+)", assembly, re.M))  # instructions, without symbols and directives
    assert codes[0] == codes[1]


def test_an_operation_on_the_same_types_is_looked_up_once(monkeypatch):
    looked_up = []
    resolve = BaseContext.resolve_function_type

    def record(context, func, args, kws):
        looked_up.append((func, args))
        return resolve(context, func, args, kws)

    monkeypatch.setattr(BaseContext, "resolve_function_type", record)
    kernel(cache=False)(_first.py_func).compile("float64(float64[::1], int64)")
    kernel(cache=False)(flat_sums.py_func).compile("float64(float64[::1], int64)")
    indexed = [args for func, args in looked_up if func is operator.getitem]
    assert len(indexed) == 2  # once in each


SHARED = """
from gainful.compute.compiled import helper

@helper
def double(x):
    return FACTOR * x
"""

KERNELS = """
from gainful.compute.compiled import kernel
from package.settings import SHIFT
from package.shared_kernels import double

@kernel
def shifted_double(x):
    return double(x) + SHIFT
"""

# Answers each path with what a fork of it gets from the package there, and what that had to compile. Forks need not
# import numba again.
USE = """
import os, sys
import gainful.compute.compiled
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, compiling):
        compiled.append(compiling.data["dispatcher"].py_func.__name__)

    def on_end(self, _):
        pass

event.register("numba:compile", Listener())
for path in sys.stdin:
    if os.fork() == 0:
        sys.path.insert(0, path.strip())
        from package.kernels import shifted_double
        print(shifted_double(3.0), *compiled, flush=True)
        os._exit(0)
    if os.wait()[1] != 0:
        sys.exit("a child failed")
"""

COMPILED = ["shifted_double", "double"]


def write_package(folder, factor="2.0", shift="0"):
    (folder / "package").mkdir(parents=True, exist_ok=True)
    files = {"__init__": "", "settings": f"SHIFT = {shift}", "kernels": KERNELS}
    files["shared_kernels"] = SHARED.replace("FACTOR", factor)
    for name, text in files.items():
        (folder / "package" / f"{name}.py").write_text(text)


@pytest.fixture
def use_package(tmp_path):
    """Path → what a process of its own gets, and what it has to compile for that."""
    caches = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment = os.environ | caches | {"PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", USE], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def answer(path):
            print(path, file=process.stdin, flush=True)
            return process.stdout.readline().split()

        yield answer
        process.stdin.close()


@needs_fork
def test_the_cache_notices_a_change_of_a_helper_or_a_number_in_another_file(tmp_path, use_package):
    write_package(tmp_path)
    assert use_package(tmp_path) == ["6.0", *COMPILED]
    assert use_package(tmp_path) == ["6.0"]
    write_package(tmp_path, factor="20.0")
    assert use_package(tmp_path) == ["60.0", *COMPILED]
    write_package(tmp_path, factor="20.0", shift="1")
    assert use_package(tmp_path) == ["61.0", *COMPILED]


@needs_fork
def test_the_cache_notices_a_change_of_a_helper_in_an_archive(tmp_path, use_package):
    def archive(factor):
        write_package(tmp_path / "unpacked", factor)
        return shutil.make_archive(str(tmp_path / "package"), "zip", tmp_path / "unpacked", "package")

    before = archive("2.0")
    assert use_package(before) == ["6.0", *COMPILED]
    assert use_package(before) == ["6.0"]
    assert use_package(archive("20.0")) == ["60.0", *COMPILED]


def test_the_cache_covers_every_file_with_kernels():
    package = Path(gainful.__file__).parent
    decorated = {path for path in package.rglob("*.py") if re.search("^@(kernel|helper)", path.read_text(), re.M)}
    decorators = {package / "compute" / name for name in ("compiled.py", "quickly_compiled.py")}
    assert decorated | decorators <= set(kernel_files(str(package)))


def test_kernels_run_uncompiled_when_numba_is_switched_off():
    use = "from gainful.trees.grades_kernels import pool_rising; print(type(pool_rising).__name__)"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", use], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["function"]


# What a kernel computes where numba lacks a name, whose module and name come in a line.
WITHOUT_A_NAME = """
import importlib, os, sys
import numba.core.caching, numba.core.untyped_passes, numba.experimental.function_type

sys.path.insert(0, os.getcwd())
module, name = sys.argv[1:]
if module == "numba.core.caching":
    begin = numba.core.caching.FunctionCache.__init__

    def begin_otherwise(self, function):
        begin(self, function)
        self.another_name = self.__dict__.pop(name)

    numba.core.caching.FunctionCache.__init__ = begin_otherwise
elif "." in name:  # a member of a class, which numba itself goes on finding
    kind, member = name.split(".")
    kind = getattr(importlib.import_module(module), kind)
    there = vars(kind)[member]

    class Hidden:
        def __get__(self, instance, owner):
            if sys._getframe(1).f_globals["__name__"].startswith("gainful"):
                raise AttributeError(member)
            return there.__get__(instance, owner)

    setattr(kind, member, Hidden())
else:
    delattr(importlib.import_module(module), name)
from package.kernels import shifted_double
print(shifted_double(3.0))
"""
PRIVATE = (
    "numba.core.compiler Compiler",
    "numba.core.typed_passes InlineOverloads",
    "numba.core.untyped_passes InlineClosureLikes",
    "numba.core.compiler_machinery PassManager.finalize",
    "numba.core.dispatcher _DispatcherBase.get_call_template",
    "numba.core.caching _cache_file",
)


@pytest.mark.parametrize("name", PRIVATE)
def test_a_numba_without_a_private_name_compiles_all_the_same(tmp_path, name):
    """Without those of the cache, which then could not notice changes, nothing is kept on disk."""
    write_package(tmp_path)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", WITHOUT_A_NAME, *name.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "6.0\n", done.stderr
    assert any((tmp_path / "cache").rglob("*.nbc")) == ("caching" not in name)


@pytest.mark.parametrize("name", ["numba.np.ufunc.parallel", "numba.core.event"])
def test_commands_work_without_an_inner_module_of_numba(name):
    package, _, module = name.rpartition(".")
    hide = f"import sys, {name} as module, {package} as package\ndel package.{module}\nsys.modules[{name!r}] = None\n"
    use = "from gainful.cli.console import watch_compilation\nfrom gainful.compute.threads import thread_count\n"
    command = f"{hide}{use}watch_compilation()\nprint(thread_count() > 0)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_machine_code_on_disk_is_made_again(tmp_path, suffix):
    write_package(tmp_path)
    use = "from package.kernels import shifted_double; print(shifted_double(3.0))"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", use], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.stdout == "6.0\n", done.stderr
        kept = list((tmp_path / "cache").rglob(f"*{suffix}"))
        assert kept
        assert all(path.stat().st_size for path in kept)
        for path in kept:
            path.write_bytes(b"")


def test_without_a_place_on_disk_kernels_live_in_memory(tmp_path):
    write_package(tmp_path)
    (tmp_path / "package" / "__pycache__").write_text("a file where the folder would be")
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": "/dev/null/none", "HOME": "/dev/null/none", "PYTHONDONTWRITEBYTECODE": "1"}
    use = "from package.kernels import shifted_double; print(shifted_double(3.0))"
    done = subprocess.run([sys.executable, "-c", use], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "6.0\n", done.stderr
