"""Results on disk: whole lines or none, and never those of something else."""

from __future__ import annotations

import hashlib
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful.errors import FormatError
from gainful.tuning.search import Search
from gainful.tuning.store import Store, StoreError, file_name, fingerprint, libraries

KEY = {"version": "1", "data": "abc", "seed": 0}


def test_rows_come_back_as_they_were(tmp_path):
    rows = [{"trial": 0, "value": 0.1 + 0.2}, {"trial": 1, "value": None, "params": {"C": 1e-300, "loss": "ä"}}]
    with Store(tmp_path / "new" / "a.jsonl", KEY) as store:
        assert store.rows == []
        for row in rows:
            store.append(row)
    with Store(tmp_path / "new" / "a.jsonl", KEY) as store:
        assert store.rows == rows


@pytest.mark.parametrize("kept", [0, 1, 5, -1])
def test_a_line_cut_short_is_dropped_and_written_over(tmp_path, kept):
    path = tmp_path / "a.jsonl"
    with Store(path, KEY) as store:
        store.append({"trial": 0})
        whole = path.read_bytes()
        store.append({"trial": 1, "value": 0.5})
    last = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + last[:kept])
    with Store(path, KEY) as store:
        assert store.rows == [{"trial": 0}]
        store.append({"trial": 1, "value": 0.7})
    with Store(path, KEY) as store:
        assert store.rows == [{"trial": 0}, {"trial": 1, "value": 0.7}]


def test_a_first_line_cut_short_is_written_again(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"gainful": "resu')
    with Store(path, KEY) as store:
        assert store.rows == []
    assert json.loads(path.read_text().splitlines()[0])["data"] == "abc"


@pytest.mark.parametrize(
    ("key", "what"),
    [
        (KEY | {"data": "xyz"}, "other data"),
        (KEY | {"version": "2"}, "another version of gainful"),
        (KEY | {"seed": 1}, "another seed"),
        (KEY | {"fold": 1}, "another fold"),
    ],
)
def test_results_of_something_else_are_refused_in_words(tmp_path, key, what):
    with Store(tmp_path / "a.jsonl", KEY) as store:
        store.append({"trial": 0})
    with pytest.raises(FormatError, match=rf"a\.jsonl: holds results of {what}.*; give another folder, or remove the"):
        Store(tmp_path / "a.jsonl", key)


def test_damage_and_strangers_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    with Store(path, KEY) as store:
        store.append({"trial": 0})
    text = path.read_text()
    path.write_text(text + "[1]\n" + text.splitlines()[1] + "\n")
    with pytest.raises(FormatError, match="line 3: is damaged; remove this line"):
        Store(path, KEY)
    path.write_text('{"some": "other file"}\n')
    with pytest.raises(FormatError, match="does not hold gainful results"):
        Store(path, KEY)
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="cannot be written"):
        Store(tmp_path / "file" / "a.jsonl", KEY)


@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_flipped_bit_is_never_read(tmp_path, line):
    path = tmp_path / "a.jsonl"
    with Store(path, KEY) as store:
        store.append({"label": "regression", "value": 0.904})
        store.append({"label": "regression", "value": 0.91})
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(len(lines[line - 1]) - 1):
        flipped = bytearray(lines[line - 1])
        flipped[at] ^= 1 << (at % 7)
        path.write_bytes(b"".join([*lines[: line - 1], bytes(flipped), *lines[line:]]))
        with pytest.raises(StoreError, match=r"a\.jsonl(, line \d)?: (is damaged|holds results of|does not hold)"):
            Store(path, KEY)


def summed(row: bytes) -> bytes:
    """A line with the checksum of its row, whatever that is."""
    return b'%s, "sum": "%s"}\n' % (row, hashlib.blake2b(row, digest_size=8).hexdigest().encode())


@pytest.mark.parametrize("row", [b"{garbage", b'{"a": ' + b"[" * 100_000, b'{"a": "\xff"', b'{"a": ' + b"9" * 5000])
def test_a_line_with_a_right_sum_may_still_not_be_json(tmp_path, row):
    path = tmp_path / "a.jsonl"
    Store(path, KEY).close()
    head = path.read_bytes()
    path.write_bytes(head + summed(row))
    with pytest.raises(StoreError, match=r"a\.jsonl, line 2: is damaged; remove this line"):
        Store(path, KEY)
    path.write_bytes(summed(row))
    for read in (Store, Store.check):
        with pytest.raises(StoreError, match=r"a\.jsonl, line 1: is damaged; remove the file"):
            read(path, KEY)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The lines of a stored search, and a function that resumes it from other lines."""
    data = gainful.make_artificial(12, n_docs=6, n_features=4, seed=1)
    path = tmp_path_factory.mktemp("store") / "regression.jsonl"

    def resume(lines, search="random", trials=4):
        path.write_bytes(b"".join(lines))
        return gainful.tune("regression", data, trials=trials, search=search, refit=False, store=path.parent)

    resume([])
    return path.read_bytes().splitlines(keepends=True), resume


def edited(line: bytes, change: dict) -> bytes:
    row = json.loads(line) | change
    del row["sum"]
    return summed(json.dumps(row).encode()[:-1])


CHANGES = [
    {"value": 10**400},
    {"value": math.nan},
    {"value": math.inf},
    {"value": None},
    {"value": True},
    {"reached": -math.inf},
    {"state": "lost"},
    {"state": "failed", "value": None},  # without a reason
    {"trial": -1},
    {"trial": True},
    {"trial": 99},
    {"trial": 10**9},
    {"trial": 1},  # twice
    {"params": {}},
    {"params": {"alpha": 1.0, "beta": 1.0}},
    {"params": {"alpha": "high"}},
    {"params": {"alpha": 10**400}},
    {"params": {"alpha": 0.123}},  # not what this search tries
    {"curve": [[1]]},
    {"curve": [[1, "high"]]},
    {"kept": {"alpha": 1.0}},
    {"models": -1},
    {"iterations": 1.5},
    {"best_iteration": 0},
    {"seconds": math.nan},
    {"elapsed": -1.0},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_line_that_is_not_a_trial_of_the_search_is_refused(tuned, change):
    lines, resume = tuned
    with pytest.raises(StoreError, match=r"regression\.jsonl, line 4: is damaged; remove this line") as error:
        resume([*lines[:3], edited(lines[3], change), *lines[4:]])
    assert len(str(error.value).splitlines()) == 1


def test_a_removed_line_is_computed_again(tuned):
    lines, resume = tuned
    again = resume([*lines[:2], *lines[3:]])
    assert [row["params"] for row in again.trials] == [json.loads(line)["params"] for line in lines[1:]]


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (gainful.Range(0.5, 2.0), 1.25, [3.0, 1, "1", None, True]),
        (gainful.IntRange(4, 64), 8, [3, 8.0, True, None]),
        (gainful.Values("a", None), None, ["b", 0, False]),
    ],
)
def test_what_optuna_may_have_drawn(space, good, bad):
    pytest.importorskip("optuna")
    search = Search("optuna", {"x": space}, {"x": good})
    assert search.may_propose(20, {"x": good})
    assert not any(search.may_propose(20, {"x": value}) for value in bad)
    assert not search.may_propose(20, {})


def test_a_file_of_an_older_layout_is_refused_as_such(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"gainful": "results", "format": 2, **KEY}) + "\n")
    with pytest.raises(StoreError, match="a newer or older layout"):
        Store(tmp_path / "a.jsonl", KEY)


def test_two_runs_do_not_share_a_file(tmp_path):
    pytest.importorskip("fcntl")
    with Store(tmp_path / "a.jsonl", KEY), pytest.raises(FormatError, match="another run is writing it"):
        Store(tmp_path / "a.jsonl", KEY)
    Store(tmp_path / "a.jsonl", KEY).close()


def test_fingerprints_tell_data_apart():
    data = gainful.make_artificial(4, n_docs=5, n_features=3, seed=0)
    same = data.replace(X=data.X.copy())
    others = [
        data.replace(y=data.y[::-1].copy()),
        data.replace(X=data.X + np.eye(20, 3)),
        data.replace(X=data.X.astype(np.float32)),
        data.replace(X=sparse.csr_array(data.X)),
        data.replace(query_weights=np.arange(1.0, 5.0)),
        data.replace(query_ids=np.arange(10, 14)),
        data[:3],
    ]
    prints = [fingerprint(one) for one in (data, *others)]
    assert fingerprint(same) == prints[0]
    assert len(set(prints)) == len(prints)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1}) != fingerprint({"a": 1, "b": 3})


def test_file_names_are_readable_and_different():
    assert file_name("ranksvm", "fold-1") == "ranksvm.fold-1.jsonl"
    names = {file_name(label) for label in ("a/b", "a b", "a:b", "../a", "a" * 80, "a" * 81, "ä", "")}
    assert len(names) == 8
    assert all("/" not in name for name in names)
    labels = ("Ridge", "ridge", "RIDGE", "ä", "Ä", "a b", "A b")
    assert len({file_name(label).casefold() for label in labels}) == len(labels), "also where case does not count"
    devices = ("con", "CON", "nul", "aux", "prn", "com1", "lpt9")
    assert not {file_name(label, "fold-1").partition(".")[0].lower() for label in devices} & set(
        map(str.lower, devices)
    )


def test_functions_are_distinguished_by_what_they_do():
    def scaled(factor):
        return lambda scores, grades: (float(factor * scores.sum()), np.full(len(scores), factor))

    assert fingerprint(lambda: 0) == fingerprint(lambda: 0)  # by code, not by address
    same, other = [gainful.loss(scaled(2.0)) for _ in range(2)], gainful.loss(scaled(3.0))
    assert str(same[0]) == str(other)
    assert fingerprint({"loss": same[0]}) == fingerprint({"loss": same[1]}) != fingerprint({"loss": other})
    functions = [lambda r: r, lambda r: r + 1, lambda r: r + 2, lambda r: -r, np.sqrt]
    assert len({fingerprint({"position_weights": one}) for one in functions}) == len(functions)


def test_a_file_is_checked_without_being_opened(tmp_path):
    path = tmp_path / "new" / "a.jsonl"
    Store.check(path, KEY)
    assert not path.exists()
    with Store(path, KEY):
        Store.check(path, KEY)
    with pytest.raises(StoreError, match="another seed"):
        Store.check(path, KEY | {"seed": 3})
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store.check(tmp_path / "file" / "a.jsonl", KEY)


def test_results_of_other_libraries_are_refused(tmp_path, monkeypatch):
    assert {"python", "numpy", "lightgbm"} <= set(libraries())
    with Store(tmp_path / "a.jsonl", KEY | {"libraries": libraries()}):
        pass
    with pytest.raises(StoreError, match="another version of Python, or of a library"):
        Store(tmp_path / "a.jsonl", KEY | {"libraries": libraries() | {"lightgbm": "3.0"}})
    before = libraries()
    monkeypatch.setattr("sys.version_info", SimpleNamespace(major=3, minor=99))
    with Store(tmp_path / "b.jsonl", KEY | {"libraries": before, "ranker": "a function, as compiled before"}):
        pass
    with pytest.raises(StoreError, match="another version of Python"):  # not "other parameters"
        Store(tmp_path / "b.jsonl", KEY | {"libraries": libraries(), "ranker": "the same function, compiled otherwise"})
