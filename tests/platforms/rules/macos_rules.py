"""macOS' rules over Linux: no affinity, ``/proc`` or ``malloc_trim``; 256 open files until a process asks for more."""

from __future__ import annotations

import builtins
import ctypes
import io
import os
import resource

import ruled

OPEN_FILES = 256


def lay() -> None:
    ruled.hide(os, ("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "memfd_create", "O_TMPFILE"))
    ruled.hide_proc((builtins, "open"), (io, "open"), *((os, name) for name in ("open", "stat", "listdir", "scandir")))
    _lack_malloc_trim()
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _lack_malloc_trim() -> None:
    find = ctypes.CDLL.__getattr__

    def find_unless_of_glibc(library: ctypes.CDLL, name: str) -> object:
        if name == "malloc_trim":
            raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
        return find(library, name)

    ctypes.CDLL.__getattr__ = find_unless_of_glibc  # type: ignore[method-assign]
