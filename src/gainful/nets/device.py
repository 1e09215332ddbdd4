"""Where tensors live: PyTorch on use, and the names of devices. PyTorch is imported on first use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gainful.compute.threads import limit_torch_after_fork, short_waits
from gainful.errors import MissingExtraError, ParameterError
from gainful.parameters.constraints import Constraint

CUDA = re.compile(r"cuda(:\d+)?")
TENSORS_ON_CPU = "torch-cpu"  # takes the GPU code path on the CPU, for tests


@dataclass(frozen=True)
class DeviceName(Constraint):
    """Where to compute: "auto", "cpu", "cuda", or one of several GPUs as in "cuda:1"."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and (
            value in ("auto", "cpu", TENSORS_ON_CPU) or CUDA.fullmatch(value) is not None
        )

    def expected(self) -> str:
        return "'auto', 'cpu', 'cuda' or such as 'cuda:1'"

    def parse(self, text: str) -> str:
        return text


def pytorch(what: str) -> Any:
    """The module ``torch``; without it, an error that says how to install it."""
    try:
        return _load()
    except ImportError:
        raise MissingExtraError.of(what, "PyTorch", "neural") from None


def _load() -> Any:
    with short_waits():
        import torch
    limit_torch_after_fork(torch)
    return torch


def chosen_device(owner: str, device: str) -> str:
    """The device that a name stands for, "cpu" or a GPU; an error if it does not exist."""
    if device in ("cpu", TENSORS_ON_CPU):
        return device
    if device == "auto":
        return "cuda" if _n_gpus() else "cpu"
    pytorch(f"{owner} with device={device!r}")
    n = _n_gpus()
    if int(device.partition(":")[2] or 0) >= n:
        seen = f"{n} GPU{'s' if n > 1 else ''}" if n else "no GPU"
        raise ParameterError.of(owner, "device", "one that is there", device, f"PyTorch sees {seen} here")
    return device


def _n_gpus() -> int:
    try:
        torch = _load()
    except ImportError:
        return 0
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0


def tensor_device(device: str) -> str:
    """PyTorch's name of a chosen device."""
    return "cpu" if device == TENSORS_ON_CPU else device
