"""Decorators for compiled loops: ``kernel`` for functions that Python calls, ``helper`` for those only kernels call.

Both keep the first use quick. Compiling a function costs about as much for its wrappers as for a short loop, and a
function called with a constant is compiled again for that constant. Helpers need neither: they have no wrappers, so
Python cannot call them, and a constant counts as any other number of its type. Helpers are not kept on disk either;
the machine code of a kernel contains theirs. And numba's compiler is spared work that flat loops do not need.

Kernels and helpers live in files named ``…kernels.py``. The disk cache covers all of these files and this one: after a
change to any of them, every kernel is compiled again on its next use. So kernels may share helpers across files.

What compiles slowly, and what to write instead:

- ``a[i:j] = b[k:l]``, 3 s (it formats an error message) and ``a[:] = 0.0``, 0.3 s: a loop;
- ``np.argsort``, 2 s, ``np.sort``, ``np.unique``: sort in NumPy before the call, or use a short sort of your own;
- array expressions, ``a.max()``, ``np.exp(a)``, 0.3 s each: a loop;
- ``np.empty``, ``min``, ``max``, about 0.05 s for each combination of types;
- slices and rows, ``a[i:j]`` and ``A[i]``: positions counted from a base. In an inner loop from i to j count with
  ``range(uint64(i), uint64(j))``: signed positions may be negative, and the compiler would do one at a time.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba.core import types
from numba.core.compiler import Compiler
from numba.core.typed_passes import InlineOverloads, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

njit: Any = numba.njit  # its type hints lack the options below
unliteral: Any = types.unliteral
LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning

NOT_NEEDED = {InlineClosureLikes, InlineOverloads, NopythonRewrites}


class _Typing:
    """numba's typing context, which looks up a built-in operation on the same types once per function.

    numba tries about ten candidates at each use, and a kernel indexes and adds the same few types all the time.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._known: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        if isinstance(func, types.Dispatcher) or kws:
            self._known.clear()  # the call may compile a helper, whose options could change what was looked up
            return self._context.resolve_function_type(func, args, kws)
        if (func, args) not in self._known:
            self._known[func, args] = self._context.resolve_function_type(func, args, kws)
        return self._known[func, args]


class _Compiler(Compiler):
    """numba's compiler with :class:`_Typing`, without passes that find nothing to do in flat loops.

    They inline closures and overloaded functions, and fuse array expressions. The machine code is the same.
    """

    def __init__(self, typingctx: Any, *rest: Any) -> None:
        super().__init__(typingctx, *rest)  # type: ignore[no-untyped-call]
        self.state.typingctx = _Typing(typingctx)

    def define_pipelines(self) -> Any:
        (passes,) = super().define_pipelines()  # type: ignore[no-untyped-call]
        passes.passes = [entry for entry in passes.passes if entry[0] not in NOT_NEEDED]
        passes.finalize()
        return [passes]


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile an entry point; numba keeps its machine code on disk."""
    options = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "pipeline_class": _Compiler} | options

    def decorate(function: Any) -> Any:
        compiled = njit(**options)(function)
        stored: Any = getattr(compiled, "_cache", None)
        if hasattr(stored, "_cache_file"):  # there is none under NUMBA_DISABLE_JIT
            file = stored._cache_file
            file._source_stamp = file._source_stamp, *_dependencies(function)
            stored.save_overload = partial(_save_if_possible, stored.save_overload)
        return compiled

    return decorate if function is None else decorate(function)


def _save_if_possible(save: Any, *given: Any) -> None:
    """Machine code that finds no place on disk is used all the same; the next process compiles again."""
    with suppress(OSError):
        save(*given)


def _dependencies(function: Any) -> tuple[str, str]:
    """What the machine code of a kernel depends on besides the kernel's own file, the only one that numba checks.

    Global numbers are compiled in, including those that a kernel file imports from ordinary modules.
    """
    numbers = {name: value for name, value in function.__globals__.items() if isinstance(value, (int, float))}
    return repr(numbers), _digest(function.__module__.partition(".")[0])


@cache
def _digest(package: str) -> str:
    """Digest of the kernel files of a package and of gainful: by content, so a copied installation keeps its cache."""
    digest = hashlib.sha256()
    for name in sorted({__name__.partition(".")[0], package}):
        for folder in getattr(sys.modules.get(name), "__path__", ()):
            for path in kernel_files(folder):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def kernel_files(folder: str) -> Iterator[Path]:
    """The kernel files in a folder of a package, or the archive that the folder is in."""
    if not os.path.isdir(folder):
        yield from (path for path in Path(folder).parents if path.is_file())
    for where, subfolders, files in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        yield from (Path(where, name) for name in sorted(files) if name.endswith(("kernels.py", "compiled.py")))


def helper(function: Any = None, **options: Any) -> Any:
    """Compile a function that only kernels and other helpers call.

    Options that numba would otherwise inherit from the first kernel compiled are set here, so that results do not
    depend on which kernel that is.
    """
    options = {"fastmath": False, "error_model": "python"} | options

    def decorate(function: Any) -> Any:
        compiled = njit(
            nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_Compiler, **options
        )(function)
        by_types = compiled.get_call_template

        def by_types_alone(args: Any, kws: Any) -> Any:
            return by_types(tuple(map(unliteral, args)), {name: unliteral(t) for name, t in kws.items()})

        compiled.get_call_template = by_types_alone
        return compiled

    return decorate if function is None else decorate(function)
