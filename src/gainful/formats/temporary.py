"""Temporary files and folders, which get their final name when they are complete.

A process that is killed leaves its temporary files behind. Each is locked while its process lives, so the next write to
the same folder knows which to remove.
"""

from __future__ import annotations

import gc
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

try:
    import fcntl

    LOCKS = True
except ImportError:  # Windows: nothing is locked, and what a killed process left is not removed
    LOCKS = False

NAME = re.compile(r"\.gainful-[0-9a-f]{16}\.tmp")
Descriptor = TypeVar("Descriptor", int, int | None)
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@contextmanager
def new_file(folder: Path) -> Iterator[tuple[int, Path]]:
    """A new temporary file: a descriptor to write to, and its path. Removed after the block unless it was renamed."""
    descriptor, path = _make_and_hold(folder, lambda path: os.open(path, NEW_FILE, 0o666))
    lock = os.dup(descriptor) if LOCKS else None  # holds the lock when the descriptor is closed
    try:
        yield descriptor, path
    finally:
        with suppress(OSError):
            os.unlink(path)
        if lock is not None:
            os.close(lock)


@contextmanager
def new_folder(parent: Path) -> Iterator[Path]:
    """A new temporary folder, removed with its contents after the block unless it was renamed."""
    lock, path = _make_and_hold(parent, _make_folder)
    try:
        yield path
    finally:
        if not LOCKS:
            gc.collect()  # arrays in cycles may still map its files, and Windows removes no mapped file
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _make_folder(path: Path) -> int | None:
    os.mkdir(path)
    return os.open(path, os.O_RDONLY) if LOCKS else None


def _make_and_hold(folder: Path, make: Callable[[Path], Descriptor]) -> tuple[Descriptor, Path]:
    """What ``make`` made under a new name, locked. Another process may remove it before it is: then once more."""
    remove_leftovers(folder)
    while True:
        path = folder / f".gainful-{secrets.token_hex(8)}.tmp"
        descriptor = make(path)
        if not LOCKS or descriptor is None:
            return descriptor, path
        with suppress(OSError):  # a file system without locks: nobody can lock it, so nobody removes it
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists():
            return descriptor, path
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of processes that no longer live."""
    if not LOCKS:
        return
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if NAME.fullmatch(entry.name) and not entry.is_symlink():
                with suppress(OSError):
                    _remove_if_free(entry)


def _remove_if_free(entry: os.DirEntry[str]) -> None:
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if entry.is_dir():
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    finally:
        os.close(descriptor)
