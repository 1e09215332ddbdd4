"""Damaged and hostile files: is each one read, or refused in one line, without a crash, a hang or much memory?

    python benchmarks/fuzz_files.py --models 100000 --letor 100000

Every case is made from its number, so a failure can be repeated (``--only models 4711``). Cases run in worker processes
under a memory limit. A case that kills its worker, or takes longer than ``--timeout``, is a failure, and a new worker
continues after it. The damage reaches all layers: bytes of the file; fields of the zip; the manifest, arrays and texts
inside, with checksums and sizes corrected, so that only the checks of the contents can refuse them. What loads is also
used: rows are scored, and trees asked for contributions.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import gainful
from gainful.errors import DataError, FormatError, GainfulError
from gainful.formats.letor import reader as letor
from gainful.rankers.model_file import MANIFEST

MAX_BYTES = 16 << 20  # the most a model file of this test may unpack to
N_FEATURES = 5
EXTREMES = [b"-1", b"0", b"1", b"2", b"-2", b"127", b"128", b"65536", b"2147483647", b"-2147483648", b"4294967295",
            b"99999999999999999999", b"1e308", b"1e309", b"-1e999", b"nan", b"inf", b"", b" ", b"1 1", b"0x10", b"1_0",
            b"\xff", b"9" * 5000]  # fmt: skip
VALUES = [None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1e308, "", "x", "a" * 10000, [], {}, [[[]]], "\ud800",
          "os.system", [0] * 1000, {"a": 1}]  # fmt: skip
LETOR_PIECES = [b"0", b"-1", b" ", b"\t", b"\n", b"\r\n", b"\r", b"#", b"qid:", b"qid:1", b":", b"1:2", b"2147483647:1",
                b"2147483648:1", b"99999999999:1", b"NULL", b"nan", b"1e999", b"inf", b"docid = ", b"\0", b"\xff", b"e",
                b"\xef\xbb\xbf", b"7e-324", b"9" * 400, b"1 qid:5 1:1\n", b"# gainful ", b"0." + b"0" * 400 + b"1",
                b"features=", b"=", b"# {\"n_features\": 2000000000}\n"]  # fmt: skip

Random = np.random.Generator


# -- model files -------------------------------------------------------------------------------------------------------


def whole_models(folder: Path) -> list[bytes]:
    """Small model files, one per way of storing a model."""
    data = gainful.make_artificial(20, n_docs=8, n_features=N_FEATURES, seed=1)
    X = data.X.copy()
    X[:, 1] = np.random.default_rng(0).integers(0, 40, len(X))
    trees = {"n_trees": 2, "n_leaves": 4, "min_docs_in_leaf": 3, "n_jobs": 1}
    by_category = {"cat_smooth": 1, "min_data_per_group": 1, "max_cat_to_onehot": 1}
    makers: list[Any] = [
        gainful.RegressionRanker(),
        gainful.StructuredSVM(),
        gainful.RankBoost(n_rounds=3),
        gainful.KernelStructuredSVM(n_landmarks=5),
        gainful.LambdaMART(**trees),
        gainful.LambdaMART(**trees, categorical=[1], engine_params=by_category),
        gainful.BoostedRanker(**trees, engine_params={"linear_tree": True}),
        gainful.McRank(**trees),
    ]
    models = [model.fit(X, data.y, qid=data.qid) for model in makers] + [untrained_net()]
    found = []
    for place, model in enumerate(models):
        gainful.save(model, folder / f"{place}.gainful")
        found.append((folder / f"{place}.gainful").read_bytes())
    return found


def untrained_net() -> gainful.NeuralRanker:
    """A net as training would leave it, made without loading PyTorch."""
    net = gainful.NeuralRanker(hidden=(3,), epochs=1, device="cpu")
    rng = np.random.default_rng(0)
    net.weights_ = [rng.normal(size=shape).astype(np.float32) for shape in ((N_FEATURES, 3), (3,), (3, 1), (1,))]
    net.shift_, net.scale_ = np.zeros(N_FEATURES), np.ones(N_FEATURES)
    net.loss_, net.device_, net.best_epoch_ = gainful.loss("ranknet"), "cpu", 1
    net.n_features_in_, net.history_, net.n_iter_, net.interrupted_ = N_FEATURES, [], 0, False
    return net


def members_of(raw: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def with_checksums(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members, with a manifest of matching checksums."""
    manifest = json.loads(members[MANIFEST])
    manifest["sha256"] = {n: hashlib.sha256(c).hexdigest() for n, c in members.items() if n != MANIFEST}
    return members | {MANIFEST: json.dumps(manifest).encode()}


def damaged_bytes(raw: bytes, rng: Random) -> bytes:
    """Bits flipped, bytes overwritten, removed, inserted or moved, or the end cut off."""
    out = bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        at, many = int(rng.integers(len(out) + 1)), int(rng.integers(1, 9))
        kind = rng.integers(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            out[at : at + many] = rng.bytes(many)
        elif kind == 2:
            del out[at : at + many]
        elif kind == 3:
            out[at:at] = rng.bytes(many)
        elif kind == 4:
            out[at:at] = out[: int(rng.integers(64))]
        else:
            del out[at:]
    return bytes(out)


def damaged_numbers(text: bytes, rng: Random) -> bytes:
    """Some of the numbers of a text replaced by others."""
    places = [m.span() for m in re.finditer(rb"-?[0-9][-+.0-9e]*", text)]
    for _ in range(int(rng.integers(1, 3))):
        start, stop = places[int(rng.integers(len(places)))]
        new = EXTREMES[int(rng.integers(len(EXTREMES)))] if rng.random() < 0.7 else b"%d" % rng.integers(-9, 9)
        text = text[:start] + new + text[stop:]
        places = [m.span() for m in re.finditer(rb"-?[0-9][-+.0-9e]*", text)] or [(0, 0)]
    return text


def damaged_lines(text: bytes, rng: Random) -> bytes:
    """A line removed, doubled, swapped or cut."""
    lines = text.split(b"\n")
    a, b = (int(i) for i in rng.integers(0, len(lines), 2))
    kind = rng.integers(4)
    if kind == 0:
        del lines[a]
    elif kind == 1:
        lines.insert(b, lines[a])
    elif kind == 2:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines[a] = lines[a][: int(rng.integers(len(lines[a]) + 1))]
    return b"\n".join(lines)


def damaged_trees(text: bytes, rng: Random) -> bytes:
    """One of LightGBM's trees damaged, and the sizes of the trees corrected."""
    head, _, rest = text.partition(b"\n\n")
    body, end, tail = rest.partition(b"end of trees")
    trees = [b"Tree=" + part for part in body.split(b"Tree=")[1:]]
    place = int(rng.integers(len(trees)))
    damage = (damaged_numbers, damaged_numbers, damaged_lines, damaged_bytes)[int(rng.integers(4))]
    trees[place] = damage(trees[place], rng)
    sizes = b" ".join(b"%d" % len(tree) for tree in trees)
    head = re.sub(rb"tree_sizes=.*", b"tree_sizes=" + sizes, head)
    return head + b"\n\n" + b"".join(trees) + end + tail


def damaged_manifest(text: bytes, rng: Random) -> bytes:
    """One value of the manifest, at any depth, replaced or removed."""
    manifest = json.loads(text)
    inside: Any = manifest
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(inside[key], (dict, list)) and inside[key] and rng.random() < 0.7:
            inside = inside[key]
            continue
        if rng.random() < 0.2:
            del inside[key]
        else:
            inside[key] = VALUES[int(rng.integers(len(VALUES)))]
        return json.dumps(manifest).encode()


def damaged_array(content: bytes, rng: Random) -> bytes:
    length = 10 + int.from_bytes(content[8:10], "little")
    kind = rng.integers(4)
    if kind == 0:
        return damaged_numbers(content[:length], rng) + content[length:]
    if kind == 1:
        return damaged_bytes(content[:length], rng) + content[length:]
    if kind == 2:
        at = length + 8 * int(rng.integers(max(1, (len(content) - length) // 8)))
        return (
            content[:at] + struct.pack("<d", [np.nan, np.inf, -1e308, 5e-324][int(rng.integers(4))]) + content[at + 8 :]
        )
    return damaged_bytes(content, rng)


def damaged_member(raw: bytes, rng: Random) -> bytes:
    """Damage inside one member, with correct checksums."""
    members = members_of(raw)
    name = list(members)[int(rng.integers(len(members)))]
    if name.endswith(".txt"):
        damage: Callable[[bytes, Random], bytes] = (
            damaged_trees,
            damaged_trees,
            damaged_numbers,
            damaged_lines,
            damaged_bytes,
        )[int(rng.integers(5))]
    else:
        damage = damaged_manifest if name == MANIFEST else damaged_array
    members[name] = damage(members[name], rng)
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # the manifest may no longer be valid
        members = with_checksums(members)
    return packed(members)


def damaged_fields(raw: bytes, rng: Random) -> bytes:
    """Fields of the zip's own records: sizes, methods, flags, counts."""
    out = bytearray(raw)
    marks = [m.start() for m in re.finditer(rb"PK(?:\x01\x02|\x03\x04|\x05\x06)", raw)]
    at = marks[int(rng.integers(len(marks)))] + int(rng.integers(4, 46))
    value = [0, 1, 12, 14, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF][int(rng.integers(7))]
    size = int(rng.choice([1, 2, 4]))
    out[at : at + size] = (value & (256**size - 1)).to_bytes(size, "little")
    return bytes(out)


def bomb(raw: bytes, rng: Random) -> bytes:
    """A small file that unpacks to a large one, is deeply nested, or has very many members."""
    members = members_of(raw)
    kind = rng.integers(5)
    if kind == 0:
        members["zeros.npy"] = bytes(int(rng.integers(MAX_BYTES // 2, 2 * MAX_BYTES)))
        return packed(with_checksums(members), zipfile.ZIP_DEFLATED)
    if kind == 1:
        deep = int(rng.integers(100, 200_000))
        members[MANIFEST] = b'{"format": "gainful-model", "version": 1, "x": ' + b"[" * deep + b"]" * deep + b"}"
        return packed(members, zipfile.ZIP_DEFLATED)
    if kind == 2:
        members |= {f"m{i}.npy": b"" for i in range(int(rng.integers(2, 6000)))}
        return packed(with_checksums(members))
    if kind == 3:
        manifest = json.loads(members[MANIFEST])
        manifest["history"] = [{}] * int(rng.integers(1, 1_500_000))
        members[MANIFEST] = json.dumps(manifest, separators=(",", ":")).encode()
        return packed(members, zipfile.ZIP_DEFLATED)
    shape = b"%d," % 10 ** int(rng.integers(6, 19))
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + shape + b"), }\n"
    members["coef.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    return packed(with_checksums(members))


def model_case(wholes: list[bytes], rng: Random) -> bytes:
    raw = wholes[int(rng.integers(len(wholes)))]
    draw = rng.random()
    if draw < 0.25:
        return damaged_bytes(raw, rng)
    if draw < 0.88:
        return damaged_member(raw, rng)
    return damaged_fields(raw, rng) if draw < 0.995 else bomb(raw, rng)


def in_one_line(error: GainfulError) -> str:
    return "refused" if len(str(error).splitlines()) == 1 else f"refused with a long message: {error}"


def use_model(path: Path) -> str:
    """Load the file and use its contents; gives "refused" or "read"."""
    try:
        model = gainful.load(path, max_bytes=MAX_BYTES)
    except FormatError as error:
        return in_one_line(error)
    rows = np.random.default_rng(0).normal(size=(7, model.n_features_in_ if model.n_features_in_ < 1000 else 1)) * 20
    if rows.shape[1] == model.n_features_in_:
        with np.errstate(all="ignore"):
            try:
                assert model.predict(rows).shape == (7,)
            except DataError as error:  # rows that overflow in the units of the model
                return in_one_line(error)
            with contextlib.suppress(GainfulError):  # some scores are not sums
                model.contributions(rows)
    return "read"


# -- LETOR files -------------------------------------------------------------------------------------------------------

LETOR = (
    b"# a note\n2 qid:10 1:0.5 3:1e-5 12:-7 #docid = D1 inc = 1\n\n0.5 qid:10 2:NULL 1:nan\r\n"
    b"1 qid:x 4:12345678901234567890.5\n3 qid:x 1:1 2:2 3:3 # docid = D 2\n"
)


def letor_case(rng: Random) -> tuple[bytes, str]:
    """The bytes of a file and its suffix."""
    draw = rng.random()
    if draw < 0.4:
        raw = damaged_bytes(LETOR, rng)
    elif draw < 0.7:
        raw = bytearray(LETOR)
        for _ in range(int(rng.integers(1, 5))):
            at = int(rng.integers(len(raw) + 1))
            raw[at:at] = LETOR_PIECES[int(rng.integers(len(LETOR_PIECES)))]
    elif draw < 0.8:
        raw = damaged_numbers(LETOR, rng)
    else:
        raw = b"".join(LETOR_PIECES[int(i)] for i in rng.integers(0, len(LETOR_PIECES), int(rng.integers(1, 25))))
    suffix = (".txt", ".txt", ".txt", ".gz", ".zst")[int(rng.integers(5))]
    if suffix == ".gz":
        raw = gzip.compress(bytes(raw), 1)
        raw = damaged_bytes(raw, rng) if rng.random() < 0.7 else raw
    return bytes(raw), suffix


def use_letor(path: Path, rng: Random) -> str:
    options = letor.Options(
        dtype=str(rng.choice(["float64", "float32"])),
        zero_based=bool(rng.integers(2)),
        sparse=[True, False, "auto", "auto"][int(rng.integers(4))],
        merge=bool(rng.integers(2)),
        chunk_bytes=int(rng.choice([1, 30, 10**6])),
        span_bytes=int(rng.choice([1, 11, 10**6])),
    )
    try:
        data = letor.read_with(path, options)
    except FormatError as error:
        return in_one_line(error)
    assert data.n_rows == len(data.y)
    return "read"


# -- workers -----------------------------------------------------------------------------------------------------------


@dataclass
class Work:
    """Which cases a worker runs, and under which limits."""

    what: str
    seed: int
    first: int
    stop: int
    step: int
    memory: int  # bytes of address space beyond what the warm worker has
    folder: str


@dataclass
class Tally:
    """The outcomes of the cases."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    peak: float = 0.0  # MiB
    slowest: float = 0.0

    def add(self, number: int, outcome: str, seconds: float, peak: float) -> None:
        self.counts[outcome if outcome in ("read", "refused") else "failed"] += 1
        self.slowest, self.peak = max(self.slowest, seconds), max(self.peak, peak)
        if outcome not in ("read", "refused"):
            self.failures.append((number, outcome))


def run_case(what: str, seed: int, number: int, wholes: list[bytes], folder: Path) -> str:
    """Make one case and use it."""
    rng = np.random.default_rng([seed, number])
    if what == "models":
        path = folder / f"{os.getpid()}.gainful"
        path.write_bytes(model_case(wholes, rng))
        return use_model(path)
    raw, suffix = letor_case(rng)
    path = folder / f"{os.getpid()}{suffix}"
    path.write_bytes(raw)
    return use_letor(path, rng)


def memory_of_process(name: str) -> int:
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith(name)).split()[1]) << 10


def worker(work: Work, channel: Any) -> None:
    """Run cases and send each outcome; each case is announced first, in case the worker dies."""
    folder = Path(work.folder)
    quiet = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):  # LightGBM prints warnings about strange parameters
        os.dup2(quiet, descriptor)
    wholes = [p.read_bytes() for p in sorted(folder.glob("*.whole"))]
    for place, raw in enumerate(wholes):  # warm up: no case should pay for imports and compilation
        (folder / f"{os.getpid()}-{place}.gainful").write_bytes(raw)
        use_model(folder / f"{os.getpid()}-{place}.gainful")
    for number in range(40):
        run_case("letor", 0, number, wholes, folder)
    base = memory_of_process("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (memory_of_process("VmSize") + work.memory,) * 2)
    for number in range(work.first, work.stop, work.step):
        channel.send(("at", number))
        start = time.perf_counter()
        try:
            outcome = run_case(work.what, work.seed, number, wholes, folder)
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error} | {traceback.format_exc(limit=-2).splitlines()[-2].strip()}"
        took = time.perf_counter() - start
        channel.send((number, outcome, took, (memory_of_process("VmHWM") - base) / 2**20))
    channel.send(("done", 0))


def run(tally: Tally, what: str, n: int, seed: int, jobs: int, memory: int, timeout: float, folder: Path) -> None:
    """All cases of a kind, in ``jobs`` workers; a worker that dies or hangs is replaced."""
    context = multiprocessing.get_context("spawn")
    waiting = [Work(what, seed, first, n, jobs, memory, str(folder)) for first in range(min(jobs, n))]
    running: dict[Any, tuple[Any, Work, int, float]] = {}
    while waiting or running:
        while waiting:
            work = waiting.pop()
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=worker, args=(work, theirs), daemon=True)
            process.start()
            theirs.close()
            running[mine] = (process, work, -1, time.monotonic())
        for pipe in multiprocessing.connection.wait(list(running), timeout=1.0):
            process, work, at, _ = running[pipe]  # type: ignore[index]
            try:
                message = pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                process.join()
                running.pop(pipe)
                if at < 0:
                    raise SystemExit(f"a worker ended with {process.exitcode} before its first case") from None
                tally.add(at, f"crash: exit code {process.exitcode}", 0.0, 0.0)
                waiting.append(Work(what, seed, at + jobs, n, jobs, memory, str(folder)))
                continue
            if message[0] == "done":
                running.pop(pipe)
                process.join()
            elif message[0] == "at":
                running[pipe] = (process, work, message[1], time.monotonic())
            else:
                tally.add(*message)
                running[pipe] = (process, work, at, time.monotonic())
        for process, _, at, since in list(running.values()):
            if at >= 0 and time.monotonic() - since > timeout:
                process.kill()  # the closed pipe then counts as a crash, with exit code -9


def report(what: str, tally: Tally, seconds: float) -> None:
    print(
        f"{what}: {tally.counts.total():,} files in {seconds:.0f} s: {tally.counts['refused']:,} refused, "
        f"{tally.counts['read']:,} read, "
        f"{tally.counts['failed']:,} failed; slowest {tally.slowest:.2f} s, "
        f"at most {tally.peak:.0f} MiB above the idle process"
    )
    for number, outcome in tally.failures[:20]:
        print(f"  {what} {number}: {outcome[:300]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=1000, help="model files")
    parser.add_argument("--letor", type=int, default=1000, help="LETOR files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--memory", type=int, default=512, help="memory limit of a worker beyond its start, MiB")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds after which a case counts as hanging")
    parser.add_argument("--only", nargs=2, metavar=("KIND", "NUMBER"), help="run one case here, without limits")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wholes = whole_models(folder)
        for place, raw in enumerate(wholes):
            (folder / f"{place}.whole").write_bytes(raw)
        if given.only:
            print(run_case(given.only[0], given.seed, int(given.only[1]), wholes, folder))
            return 0
        failed = 0
        for what, n in (("models", given.models), ("letor", given.letor)):
            if n == 0:
                continue
            start = time.perf_counter()
            tally = Tally()
            try:
                run(tally, what, n, given.seed, given.jobs, given.memory << 20, given.timeout, folder)
            except KeyboardInterrupt:  # print the figures so far; the workers end with this process
                report(what, tally, time.perf_counter() - start)
                return 1
            report(what, tally, time.perf_counter() - start)
            failed += len(tally.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
