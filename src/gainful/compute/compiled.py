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

try:
    from gainful.compute.quickly_compiled import OF_HELPERS, OF_KERNELS, take_constants_as_numbers
except (ImportError, AttributeError):  # a numba whose inner names are others: it compiles in its own way, more slowly
    OF_HELPERS, OF_KERNELS, take_constants_as_numbers = {}, {}, lambda compiled: None

njit: Any = numba.njit  # its type hints lack the options below
LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile an entry point. Its machine code is kept on disk where there is a place for it, else in memory."""
    options = {"cache": True, "nogil": True, **OF_KERNELS} | options

    def decorate(function: Any) -> Any:
        try:
            return _notice_changes(njit(**options)(function))
        except (RuntimeError, AttributeError):  # there is no folder to write to, or numba's inner names are others
            return njit(**options | {"cache": False})(function)

    return decorate if function is None else decorate(function)


def _notice_changes(compiled: Any) -> Any:
    """A kernel whose cache on disk knows all that it depends on, and may be full. AttributeError if it has no cache."""
    file = compiled._cache._cache_file
    file._source_stamp = file._source_stamp, *_dependencies(compiled.py_func)
    cache = compiled._cache
    cache.save_overload = partial(_save_if_possible, cache.save_overload)
    cache.load_overload = partial(_load_if_possible, cache, cache.load_overload)
    return compiled


def _save_if_possible(save: Any, *given: Any) -> None:
    """Machine code that finds no place on disk is used all the same; the next process compiles again."""
    with suppress(OSError, EOFError):
        save(*given)


def _load_if_possible(cache: Any, load: Any, *given: Any) -> Any:
    """None, so that it is compiled, for machine code that cannot be read: another user's, or damaged, which goes."""
    try:
        return load(*given)
    except Exception:  # whatever damaged bytes mean
        with suppress(OSError):
            cache.flush()
        return None


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
        compiled = njit(nogil=True, **OF_HELPERS, **options)(function)
        take_constants_as_numbers(compiled)
        return compiled

    return decorate if function is None else decorate(function)
