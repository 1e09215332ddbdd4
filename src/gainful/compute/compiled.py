"""Decorators for compiled loops: ``kernel`` for what Python calls, ``helper`` for what only kernels call.

Both keep the first use quick. Compiling a function costs about as much for its wrappers as for a short loop, and a
function called with a constant is compiled again for that constant. Helpers need neither: they have no wrappers, so
Python cannot call them, and a constant counts as any other number of its type. Helpers are not kept on disk either;
the machine code of a kernel contains theirs.

The disk cache notices changes of the file that holds a kernel, and of no other: keep a kernel and its helpers together.

What compiles slowly, and what to write instead:

- ``a[i:j] = b[k:l]``, 3 s (it formats an error message) and ``a[:] = 0.0``, 0.3 s: a loop;
- ``np.argsort``, 2 s, ``np.sort``, ``np.unique``: sort in NumPy before the call, or use a short sort of your own;
- array expressions, ``a.max()``, ``np.exp(a)``, 0.3 s each: a loop;
- ``np.empty``, ``min``, ``max``, about 0.05 s for each combination of types;
- slices and rows, ``a[i:j]`` and ``A[i]``: positions counted from a base. In an inner loop from i to j count with
  ``range(uint64(i), uint64(j))``: signed positions may be negative, and the compiler would do one at a time.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types

njit: Any = numba.njit  # its type hints lack the options below
unliteral: Any = types.unliteral
LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile an entry point; numba keeps its machine code on disk."""
    decorate = njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)
    return decorate if function is None else decorate(function)


def helper(function: Any = None, **options: Any) -> Any:
    """Compile a function that only kernels and other helpers call.

    What numba would take over from the kernel that happens to be compiled first is said here, so that results do not
    depend on which one that is.
    """
    options = {"fastmath": False, "error_model": "python"} | options

    def decorate(function: Any) -> Any:
        compiled = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
        by_types = compiled.get_call_template

        def by_types_alone(args: Any, kws: Any) -> Any:
            return by_types(tuple(map(unliteral, args)), {name: unliteral(t) for name, t in kws.items()})

        compiled.get_call_template = by_types_alone
        return compiled

    return decorate if function is None else decorate(function)
