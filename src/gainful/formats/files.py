"""Files for the formats: written whole or not at all, read in bounded chunks."""

from __future__ import annotations

import gzip
import mmap
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from gainful.errors import DataError, FormatError
from gainful.formats.temporary import new_file

if TYPE_CHECKING:
    from gainful.data.dataset import RankingData

COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
BUFFER_BYTES = 1 << 20
SPARE_FILES = 64  # files that a process opens besides its data
UTF8_MARK = b"\xef\xbb\xbf"

Bytes = npt.NDArray[np.uint8]
PathLike = str | os.PathLike[str]


def compression_of(path: PathLike) -> str | None:
    """``"gz"``, ``"zst"`` or None, by the suffix."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


# -- reading -----------------------------------------------------------------------------------------------------------


def check_readable(path: PathLike) -> int:
    """The size in bytes of a regular, readable file that is not empty; raises for anything else."""
    try:
        info = os.stat(path)
    except FileNotFoundError:
        raise FormatError("there is no such file", path=path) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be read: {reason(error)}", path=path) from None
    if stat.S_ISDIR(info.st_mode):
        raise FormatError("is a folder; give a file", path=path)
    if not stat.S_ISREG(info.st_mode):
        raise FormatError("is not a regular file; pipes and devices cannot be read, save it to a file first", path=path)
    if info.st_size == 0:
        raise FormatError("the file is empty", path=path)
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise FormatError(f"cannot be read: {reason(error)}", path=path) from None
    return info.st_size


def reason(error: BaseException) -> str:
    """What an operating system or library error says, on one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


def room_for_files(n: int) -> None:
    """Let the process open ``n`` more files, one per mapped file; raise if the system does not allow it."""
    try:
        import resource
    except ImportError:  # not a Unix
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n + _n_open_files() + SPARE_FILES
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise DataError(
            f"{n:,} files must be open at once, but the system allows {hard:,} per process; gainful data convert "
            "FOLDER NEW --shard-rows N with a larger N makes fewer, or raise the limit (ulimit -n)"
        )
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        raise DataError(f"{n:,} files cannot be open at once: {reason(error)}; raise the limit (ulimit -n)") from None


def _n_open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return SPARE_FILES


@dataclass
class Chunk:
    """Whole lines of a text file: ``buf[start:stop]``. ``release`` frees the memory after use."""

    buf: Bytes
    start: int
    stop: int
    release: Callable[[], None]


def text_chunks(
    path: PathLike, chunk_bytes: int, check_size: Callable[[int], None] = lambda size: None
) -> Iterator[Chunk]:
    """The file as chunks of whole lines of about ``chunk_bytes``; a byte order mark at the start is skipped.

    A plain file is mapped: its pages come from the system's cache and leave memory when the chunk is released. A
    compressed one is decompressed on demand; ``check_size`` gets the size of each chunk while it grows, since a line
    may be long, and may raise.
    """
    check_readable(path)
    if compression_of(path) is None:
        return _mapped_chunks(path, chunk_bytes)
    return _decompressed_chunks(path, chunk_bytes, check_size)


def _mapped_chunks(path: PathLike, chunk_bytes: int) -> Iterator[Chunk]:
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    buf = np.frombuffer(pages, dtype=np.uint8)
    start = len(UTF8_MARK) if pages[:3] == UTF8_MARK else 0
    while start < len(buf):
        newline = pages.find(b"\n", min(start + chunk_bytes, len(buf)) - 1)
        stop = len(buf) if newline < 0 else newline + 1
        yield Chunk(buf, start, stop, lambda a=start, b=stop: forget_pages(pages, a, b))  # type: ignore[misc]
        start = stop


def forget_pages(pages: mmap.mmap, start: int, stop: int) -> None:
    """Drop mapped pages from this process; a later access maps them again from the system's cache."""
    if hasattr(mmap, "MADV_DONTNEED"):
        first = start - start % mmap.PAGESIZE
        pages.madvise(mmap.MADV_DONTNEED, first, stop - first)


def _decompressed_chunks(path: PathLike, chunk_bytes: int, check_size: Callable[[int], None]) -> Iterator[Chunk]:
    pending: list[bytes] = []
    held = 0
    first = True
    for raw in decompress(path):
        if first:
            raw, first = raw.removeprefix(UTF8_MARK), False
        pending.append(raw)
        held += len(raw)
        check_size(held)
        newline = raw.rfind(b"\n") + 1
        if held >= chunk_bytes and newline:
            pending[-1] = raw[:newline]
            yield _chunk_of(b"".join(pending))
            pending = [raw[newline:]]
            held = len(pending[0])
    if held:
        yield _chunk_of(b"".join(pending))


def _chunk_of(text: bytes) -> Chunk:
    return Chunk(np.frombuffer(text, dtype=np.uint8), 0, len(text), lambda: None)


def next_line(buf: Bytes, at: int) -> int:
    """The start of the line after the one that contains ``at``, or the end of the buffer."""
    size = 4096
    while at < len(buf):
        found = buf[at : at + size].tobytes().find(b"\n")
        if found >= 0:
            return at + found + 1
        at, size = at + size, 2 * size
    return len(buf)


def decompress(path: PathLike) -> Iterator[bytes]:
    """The bytes of a .gz or .zst file, some at a time."""
    import pyarrow as pa

    kind = compression_of(path)
    try:
        with pa.CompressedInputStream(pa.OSFile(os.fspath(path), "rb"), "gzip" if kind == "gz" else "zstd") as stream:
            raw = bytearray(BUFFER_BYTES)  # our own: Arrow leaks its buffer if the file is damaged
            while n := stream.readinto(raw):
                yield bytes(memoryview(raw)[:n])
    except OSError as error:
        raise FormatError(f"the {kind} file is damaged or cut short: {reason(error)}", path=path) from None


@contextmanager
def errors_of(path: PathLike | None, about: str = "") -> Iterator[None]:
    """Name the file in errors of the block about data; ``about`` stands before them."""
    try:
        yield
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(f"{about}{error}", path=path) from None


# -- writing -----------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_write(path: PathLike) -> Iterator[BinaryIO]:
    """A binary file that replaces ``path`` when the block succeeds, and leaves no trace otherwise.

    The bytes go to a file next to it, which is flushed to disk and renamed, so a reader sees the old file or the new.
    """
    target = real_path(path)
    mode = _check_target(target, path)
    try:
        with new_file(target.parent) as (descriptor, temporary):
            with os.fdopen(descriptor, "w+b", buffering=BUFFER_BYTES) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(temporary, mode)
            try:
                os.replace(temporary, target)
            except PermissionError as error:  # Windows replaces no file that is open or mapped
                why = f"{reason(error)}; if data was read from it, or it is open, write to another name"
                raise FormatError(f"cannot be replaced: {why}", path=path) from None
    except OSError as error:
        raise FormatError(f"cannot be written: {reason(error)}", path=path) from error


def write_text(path: PathLike, text: str) -> None:
    """Write a text file by :func:`atomic_write`."""
    with atomic_write(path) as file:
        file.write(text.encode())


def real_path(path: PathLike) -> Path:
    """Where a file to be written is, behind links."""
    try:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise FormatError(f"cannot be written, as the current folder is gone: {reason(error)}", path=path) from None


def prepare_folder(folder: PathLike) -> None:
    """Make a folder if it does not exist; refuse one that cannot be written to, before the work that fills it."""
    try:
        os.makedirs(folder, exist_ok=True)
        with new_file(Path(folder)) as (descriptor, _):
            os.close(descriptor)
    except OSError as error:
        raise FormatError(f"cannot be written to: {reason(error)}", path=folder) from None


def refuse_unwritable(path: PathLike) -> None:
    """Refuse at once what :func:`atomic_write` would refuse after the work."""
    target = real_path(path)
    _check_target(target, path)
    if not os.access(target.parent, os.W_OK):
        raise FormatError(f"the folder {target.parent} cannot be written to", path=path)


def _check_target(target: Path, path: PathLike) -> int | None:
    """The permissions of the file to be replaced, if there is one."""
    if not target.parent.is_dir():
        raise FormatError(f"the folder {target.parent} does not exist; create it first", path=path)
    try:
        info = os.stat(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(f"cannot be written: {reason(error)}", path=path) from None
    if stat.S_ISDIR(info.st_mode):
        raise FormatError("is a folder; give the name of a file", path=path)
    if not stat.S_ISREG(info.st_mode):
        raise FormatError("is not a regular file, so it cannot be replaced", path=path)
    if not os.access(target, os.W_OK):
        raise FormatError("is read-only; let it be written to, or give another name", path=path)
    return stat.S_IMODE(info.st_mode)


def refuse_columns(data: RankingData, path: PathLike) -> None:
    """Raise for columns that LETOR text does not hold."""
    columns = {"initial scores": data.init_scores, "positions": data.positions, "propensities": data.propensities}
    for what, values in columns.items():
        if values is not None:
            raise FormatError(
                f"this format cannot hold {what}; write .gnf or a table, or write them to a file of their own, one per "
                "line",
                path=path,
            )


class FileWriter(ABC):
    """One file of any format: ``with open_writer(path, data) as writer: writer.append(data)``.

    The file appears when the block succeeds; otherwise nothing is left.
    """

    def __init__(self, path: PathLike):
        self.path = path

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Open the file, and enter everything that must be closed into ``stack``."""

    @abstractmethod
    def append(self, data: RankingData) -> None:
        """Add rows at the end."""

    def _finish(self) -> None:  # noqa: B027 - most formats write nothing after the last row
        """Write what comes after the last row."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._open(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is not None:
            self._stack.__exit__(*raised)
            return
        with self._stack:
            self._finish()


@contextmanager
def open_compressed(path: PathLike) -> Iterator[Any]:
    """:func:`atomic_write`, compressed according to the suffix."""
    with atomic_write(path) as file:
        kind = compression_of(path)
        if kind is None:
            yield file
        elif kind == "gz":
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                yield packed
        else:
            import pyarrow as pa

            kept: Any = _KeptOpen(file)
            with pa.CompressedOutputStream(pa.PythonFile(kept, mode="w"), "zstd") as packed:
                yield packed


class _KeptOpen:
    """A file whose ``close`` only flushes: an Arrow stream closes its file, and we still need it."""

    closed = False

    def __init__(self, file: BinaryIO):
        self.file = file

    def write(self, data: Any) -> int:
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.closed = True
        self.file.flush()
