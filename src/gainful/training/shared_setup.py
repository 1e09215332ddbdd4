"""What trainings on the same data share: the bins of trees, the statistics of features.

A search trains many times on the same rows. Whoever does so keeps a :class:`SharedSetup` as long as the search lasts
and trains within its :meth:`~SharedSetup.use`. Trainings call :func:`share`; outside of such a block it shares nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gainful.compute.memory import allowed_memory

T = TypeVar("T")
MOST = 0.1  # share of the free memory for what is kept
USUAL = 1e9  # bytes for it where the system does not say what is free

_current: ContextVar[SharedSetup | None] = ContextVar("shared set-up", default=None)


def is_shared() -> bool:
    """Whether this training is one of several that share their set-up."""
    return _current.get() is not None


def share(owner: Any, key: Hashable, make: Callable[[], T], n_bytes: Callable[[T], float] = lambda _: 0.0) -> T:
    """``make()``, or what it returned to an earlier training with the same key.

    ``owner`` is the object of which it is made, such as the data. What was made is kept as long as this object lives,
    and changed by nobody. ``n_bytes`` says how much memory it takes.
    """
    setup = _current.get()
    return make() if setup is None else setup._find_or_make(owner, key, make, n_bytes)


class SharedSetup:
    """What trainings have made so far, up to a tenth of the memory that was free at first. Threads may share it."""

    def __init__(self) -> None:
        allowed = allowed_memory()
        self._room = USUAL if allowed is None else MOST * allowed
        self._entries: dict[tuple[int, Hashable], _Entry] = {}
        self._lock = threading.Lock()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Trainings of this thread inside this block share their set-up."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def _find_or_make(self, owner: Any, key: Hashable, make: Callable[[], T], n_bytes: Callable[[T], float]) -> T:
        entry = self._entry(owner, key)
        if entry.is_too_large:
            return make()
        with entry.lock:  # another training may be making it
            if entry.is_made:
                return entry.value  # type: ignore[no-any-return]
            value = make()
            self._keep(entry, value, n_bytes(value))
            return value

    def _entry(self, owner: Any, key: Hashable) -> _Entry:
        with self._lock:
            found = self._entries.get((id(owner), key))
            if found is None or found.owner() is not owner:
                self._entries = {place: entry for place, entry in self._entries.items() if entry.owner() is not None}
                found = self._entries[(id(owner), key)] = _Entry(weakref.ref(owner))
            return found

    def _keep(self, entry: _Entry, value: Any, n_bytes: float) -> None:
        with self._lock:
            if sum(one.n_bytes for one in self._entries.values() if one.owner() is not None) + n_bytes > self._room:
                entry.is_too_large = True
            else:
                entry.value, entry.n_bytes, entry.is_made = value, n_bytes, True


@dataclass(eq=False)
class _Entry:
    owner: Callable[[], Any]  # a weak reference
    value: Any = None
    n_bytes: float = 0.0
    is_made: bool = False
    is_too_large: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
