"""A format is a module and a line of FORMATS; everything that takes files then takes its files."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gainful.data.dataset import RankingData
from gainful.errors import UnknownNameError
from gainful.formats import FORMATS, Format, columns_of, read, write
from gainful.formats.convert import convert, iter_blocks
from gainful.formats.files import FileWriter, PathLike, atomic_write
from gainful.inputs.shards import open_shards

DATA = RankingData.from_rows(np.arange(12.0).reshape(6, 2), [0, 1, 2, 0, 1, 2], [1, 1, 2, 2, 3, 3])


class JsonWriter(FileWriter):
    def _open(self, stack: ExitStack) -> None:
        self.file = stack.enter_context(atomic_write(self.path))

    def append(self, data: RankingData) -> None:
        rows = zip(data.X.tolist(), data.y.tolist(), data.qid.tolist(), strict=True)
        self.file.writelines(json.dumps(row).encode() + b"\n" for row in rows)


def read_json(path: PathLike, *, negate: bool = False) -> RankingData:
    X, y, qid = zip(*map(json.loads, Path(path).read_text().splitlines()), strict=True)
    return RankingData.from_rows(-np.array(X) if negate else np.array(X), y, qid)


@pytest.fixture(autouse=True)
def json_format(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("gainful.formats.rows")
    module.read, module.open_writer = read_json, lambda path, data: JsonWriter(path)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(FORMATS, "rows", Format("rows", (".rows",)))


def test_it_is_written_read_and_converted(tmp_path: Path) -> None:
    write(DATA, tmp_path / "a.rows")
    assert read(tmp_path / "a.rows").equals(DATA)
    assert np.array_equal(read(tmp_path / "a.rows", negate=True).X, -DATA.X)
    convert(tmp_path / "a.rows", tmp_path / "b.gnf")
    convert(tmp_path / "b.gnf", tmp_path / "c.rows")
    assert (tmp_path / "c.rows").read_bytes() == (tmp_path / "a.rows").read_bytes()
    convert(tmp_path / "b.gnf", tmp_path / "shards", to="rows", shard_rows=2)
    assert open_shards(tmp_path / "shards").n_blocks == 3
    assert RankingData.concatenate(list(iter_blocks(tmp_path / "shards", rows=4))).equals(DATA)


def test_what_it_does_not_have_is_reported(tmp_path: Path) -> None:
    write(DATA, tmp_path / "a.rows")
    assert columns_of(tmp_path / "a.rows") is None
    with pytest.raises(UnknownNameError, match=r"read for this format has no option 'negat'.*did you mean 'negate'"):
        list(iter_blocks(tmp_path / "a.rows", negat=True))
    with pytest.raises(UnknownNameError, match="write for this format has no option 'zeros'"):
        write(DATA, tmp_path / "b.rows", zeros=True)
