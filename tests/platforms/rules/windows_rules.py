"""Windows' rules over Linux, as far as a process can lay them over itself.

- A file that is open or mapped in this process cannot be removed, replaced or renamed, nor the folders that it is in.
  A file that is read-only cannot be removed or replaced. A folder cannot be replaced.
- Names that differ by case alone are one name; ``CON``, ``NUL`` and the like, and ``<>:"|?*`` name no file.
- There are no ``fcntl``, ``resource``, ``pwd``, ``fork``, user ids, affinity, pipes with names, SIGHUP, SIGKILL,
  ``/proc`` or ``HOME``; ``CDLL(None)`` raises TypeError.
- Standard streams, and text files opened without an encoding, are in cp1252. ``os.open`` without ``O_BINARY`` is text
  mode, in which ``\\n`` becomes ``\\r\\n``.
- With ``SO_REUSEADDR`` two sockets listen on one port; ``SO_EXCLUSIVEADDRUSE`` keeps others away.

What other processes hold is not looked at.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ruled

ENCODING = "cp1252"
NO_MODULES = ("fcntl", "resource", "pwd", "grp", "termios")
NOT_IN_OS = (
    "fork", "forkpty", "register_at_fork", "geteuid", "getuid", "getegid", "getgid", "sched_getaffinity", "mkfifo",
    "sched_setaffinity", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "posix_fadvise", "WNOHANG", "killpg", "setsid",
)  # fmt: skip
NO_SIGNALS = ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGSTOP", "SIGCONT", "SIGCHLD", "pthread_sigmask")
O_BINARY, O_TEXT = 1 << 30, 0  # a bit that the real flags leave free
SO_EXCLUSIVEADDRUSE = -5
RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)", re.IGNORECASE)
NOT_IN_NAMES = re.compile(r'[<>:"|?*\x01-\x1f]|[. ]$')
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_open, _stat, _lstat, _listdir, _readlink, _unlink = os.open, os.stat, os.lstat, os.listdir, os.readlink, os.unlink
_replace, _rmdir, _mkdir, _access, _write, _close = os.replace, os.rmdir, os.mkdir, os.access, os.write, os.close
_io_open = io.open
_text: set[int] = set()  # descriptors in text mode


def lay() -> None:
    os.environ.pop("HOME", None)
    _lay_over_files()
    _lay_over_text()
    ruled.hide_proc((builtins, "open"), (io, "open"), *((os, name) for name in ("open", "stat", "listdir", "scandir")))
    ruled.hide_modules(NO_MODULES)
    ruled.hide(os, NOT_IN_OS)
    ruled.hide(signal, NO_SIGNALS)
    _lay_over_libraries()
    _lay_over_sockets()


# -- files -------------------------------------------------------------------------------------------------------------


def _in_use() -> Iterator[str]:
    """The files that this process has open or mapped."""
    for descriptor in _listdir("/proc/self/fd"):
        try:
            yield _readlink(f"/proc/self/fd/{descriptor}")
        except OSError:  # that of the listing itself
            continue
    with _io_open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            parts = line.split(maxsplit=5)
            if len(parts) == 6 and parts[5].startswith("/"):
                yield parts[5].rstrip("\n")


def _refuse_use(path: Any, *, is_replaced: bool = True) -> None:
    """Raise as Windows does for a file or folder that cannot be removed, replaced or renamed."""
    real = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path)))), os.path.basename(path))
    if any(one == real or one.startswith(real + os.sep) for one in _in_use()):
        raise _refusal("The process cannot access the file because it is being used by another process", path, 32)
    try:
        info = _lstat(real)
    except OSError:
        return
    if is_replaced and stat.S_ISREG(info.st_mode) and not info.st_mode & stat.S_IWUSR:
        raise _refusal("Access is denied", path, 5)


def _refusal(text: str, path: Any, number: int) -> PermissionError:
    error = PermissionError(errno.EACCES, text, os.fsdecode(path))
    error.winerror = number  # type: ignore[attr-defined]
    return error


def _check_name(path: Any) -> None:
    name = os.path.basename(os.fsdecode(path))
    if RESERVED.match(name) or NOT_IN_NAMES.search(name):
        raise OSError(errno.EINVAL, "The filename, directory name, or volume label syntax is incorrect", str(path))


def _as_stored(path: Any) -> Any:
    """The path, with its last part as an existing file spells it that differs by case alone."""
    if isinstance(path, int) or not ruled.is_ours():
        return path
    text = os.fsdecode(path)
    try:
        _lstat(text)
    except OSError:
        folder, name = os.path.split(text)
        try:
            same = [one for one in _listdir(folder or ".") if one.casefold() == name.casefold()]
        except OSError:
            return path
        return os.path.join(folder, same[0]) if same else path
    return path


def _is_named_by_tempfile() -> bool:
    """tempfile opens a file and removes its name; on Windows it has another way."""
    return os.path.basename(sys._getframe(2).f_code.co_filename) == "tempfile.py"


def _lay_over_files() -> None:
    def unlink(path: Any, **named: Any) -> None:
        if ruled.is_ours() and not named and not _is_named_by_tempfile():
            _refuse_use(path)
        _unlink(_as_stored(path), **named)

    def replace(source: Any, target: Any, **named: Any) -> None:
        if ruled.is_ours():
            _check_name(target)
            _refuse_use(source, is_replaced=False)
            _refuse_use(target)
            if os.path.isdir(target):
                raise _refusal("Access is denied", target, 5)
        _replace(source, _as_stored(target), **named)

    def rename(source: Any, target: Any, **named: Any) -> None:
        if ruled.is_ours() and os.path.lexists(_as_stored(target)):
            raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", str(target))
        replace(source, target, **named)

    def rmdir(path: Any, **named: Any) -> None:
        if ruled.is_ours() and not named:
            _refuse_use(path)
        _rmdir(path, **named)

    def mkdir(path: Any, *mode: Any, **named: Any) -> None:
        if ruled.is_ours():
            _check_name(path)
        _mkdir(_as_stored(path), *mode, **named)

    def open_descriptor(path: Any, flags: int, *mode: Any, **named: Any) -> int:
        if ruled.is_ours():
            if not isinstance(path, int) and os.path.isdir(path):
                raise _refusal("Permission denied", path, 5)
            if flags & WRITES:
                _check_name(path)
        made = _open(_as_stored(path), flags & ~O_BINARY, *mode, **named)
        _text.discard(made)
        if ruled.is_ours() and not flags & O_BINARY:
            _text.add(made)
        return made

    def write(descriptor: int, content: Any) -> int:
        if descriptor not in _text:
            return _write(descriptor, content)
        _write(descriptor, bytes(content).replace(b"\n", b"\r\n"))
        return len(content)

    def close(descriptor: int) -> None:
        _text.discard(descriptor)
        _close(descriptor)

    def access(path: Any, mode: int, **named: Any) -> bool:
        """On Windows the read-only mark counts for every user, and folders have none."""
        allowed = _access(path, mode, **named)
        if mode & os.W_OK and allowed and ruled.is_ours() and os.path.isfile(path):
            return bool(_stat(path).st_mode & stat.S_IWUSR)
        return allowed

    def status(path: Any, **named: Any) -> os.stat_result:
        return _stat(_as_stored(path), **named)

    for name, function in (
        ("unlink", unlink), ("remove", unlink), ("replace", replace), ("rename", rename), ("rmdir", rmdir),
        ("mkdir", mkdir), ("open", open_descriptor), ("write", write), ("close", close), ("access", access),
        ("stat", status),
    ):  # fmt: skip
        setattr(os, name, function)
    os.O_BINARY, os.O_TEXT = O_BINARY, O_TEXT  # type: ignore[attr-defined]
    shutil._use_fd_functions = False  # rmtree then removes by path, as on Windows
    if hasattr(shutil, "_rmtree_impl"):  # Python 3.14 chooses the way when shutil is imported
        shutil._rmtree_impl = shutil._rmtree_unsafe


# -- text --------------------------------------------------------------------------------------------------------------


def _lay_over_text() -> None:
    def open_text(
        file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *rest: Any, **named: Any
    ) -> Any:
        if ruled.is_ours():
            if not isinstance(file, int):
                if set(mode) & set("wax+"):
                    _check_name(file)
                file = _as_stored(file)
            if "b" not in mode and encoding in (None, "locale"):
                encoding = ENCODING
        return _io_open(file, mode, buffering, encoding, *rest, **named)

    builtins.open = io.open = open_text  # type: ignore[assignment]
    subprocess._text_encoding = lambda: ENCODING  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(encoding=ENCODING)  # type: ignore[union-attr]


# -- the rest ----------------------------------------------------------------------------------------------------------


def _lay_over_libraries() -> None:
    begin: Callable[..., None] = ctypes.CDLL.__init__

    def begin_with_a_name(library: ctypes.CDLL, name: Any, *rest: Any, **named: Any) -> None:
        if name is None and ruled.is_ours():
            raise TypeError("argument of type 'NoneType' is not iterable")
        begin(library, name, *rest, **named)

    ctypes.CDLL.__init__ = begin_with_a_name  # type: ignore[method-assign]


def _lay_over_sockets() -> None:
    set_option = socket.socket.setsockopt

    def set_as_on_windows(self: socket.socket, level: int, option: int, *value: Any) -> None:
        if option == SO_EXCLUSIVEADDRUSE:
            return
        if option == socket.SO_REUSEADDR and ruled.is_ours():
            option = socket.SO_REUSEPORT
        set_option(self, level, option, *value)

    socket.socket.setsockopt = set_as_on_windows  # type: ignore[method-assign]
    socket.SO_EXCLUSIVEADDRUSE = SO_EXCLUSIVEADDRUSE  # type: ignore[attr-defined]
