"""Work on a GPU recorded once and started as a whole, as a CUDA graph.

Starting a kernel from Python takes a few microseconds, longer than many kernels run.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")


class Graph(Generic[T]):
    """Calls repeat work on tensors that stay where they are; they return the same tensors each time.

    The first call does the work: that makes what recording needs, such as compiled kernels. The second records it.
    Graphs of one ``pool`` share their memory, so what one returns must not be needed after the next one runs.
    """

    def __init__(self, device: torch.device, *, pool: Any = None, generator: torch.Generator | None = None):
        self.device, self.pool, self.generator = device, pool, generator
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warm = False
        self.result: T

    def __call__(self, work: Callable[[], T]) -> T:
        """``work`` must be the same each time. It is not kept: that would be a cycle, and hold memory of the GPU."""
        if not self.warm:
            self.warm = True
            return work()
        with torch.cuda.device(self.device):
            if self.graph is None:
                self.graph = self._record(work)
            self.graph.replay()
        return self.result

    def _record(self, work: Callable[[], T]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        if self.generator is not None:
            graph.register_generator_state(self.generator)
        torch.cuda.synchronize()
        with no_garbage_collection(), torch.cuda.graph(graph, pool=self.pool):
            self.result = work()
        return graph


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Freeing another graph while one is recorded would spoil the record."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
