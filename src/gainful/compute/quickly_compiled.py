"""numba's compiler, spared work that flat loops do not need. All private names of numba's compiler are here.

Importing this raises ImportError or AttributeError if a name is missing; kernels are then compiled as numba does it. So
they are where an object lacks a member.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from numba.core import types
from numba.core.compiler import Compiler
from numba.core.cpu import CPUTargetOptions
from numba.core.typed_passes import InlineOverloads, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

unliteral: Any = types.unliteral
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
        pipelines = super().define_pipelines()  # type: ignore[no-untyped-call]
        with suppress(AttributeError):
            for pipeline in pipelines:
                finalize, passes = pipeline.finalize, pipeline.passes
                pipeline.passes = [entry for entry in passes if entry[0] not in NOT_NEEDED]
                finalize()
        return pipelines


def take_constants_as_numbers(compiled: Any) -> None:
    """Let a helper called with a constant be compiled as for any other number of its type."""
    by_types = getattr(compiled, "get_call_template", None)
    if by_types is None:
        return

    def by_types_alone(args: Any, kws: Any) -> Any:
        return by_types(tuple(map(unliteral, args)), {name: unliteral(t) for name, t in kws.items()})

    compiled.get_call_template = by_types_alone


# options of ``njit`` for kernels, and for helpers, which Python does not call
OF_KERNELS = {"no_cfunc_wrapper": True, "pipeline_class": _Compiler}
OF_HELPERS = {"no_cpython_wrapper": True, **OF_KERNELS}
if not all(hasattr(CPUTargetOptions, name) for name in OF_HELPERS if name != "pipeline_class"):
    raise ImportError("this numba has other options")
