"""A checkpoint gives back what was saved, bit by bit; of another training, or damaged, it is refused in one line."""

from __future__ import annotations

import math
import shutil
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from killed_training import Stop, problem
from scipy import sparse

import gainful
from gainful import Checkpoint, FormatError, GainfulError, ParameterError
from gainful.errors import InterruptedFitWarning
from gainful.persistence.container import pack, read_container, write_container
from gainful.training.checkpoint import KIND, CheckpointWarning, data_facts

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**130), 2**130) | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=8,
)
ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=4, min_side=0),
)
LONG = st.text(st.characters(codec="utf-8"), min_size=5).map(lambda text: text * 300)


def same(a, b) -> bool:
    """Equal, NaN to NaN, with the signs of zeros."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return isinstance(b, float) and ((math.isnan(a) and math.isnan(b)) or a.hex() == b.hex())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return type(a) is type(b) and a == b


def reopened(path, training=None) -> Checkpoint:
    found = Checkpoint(path)
    found.open(training or {"class": "A"})
    return found


@settings(max_examples=30)
@given(state=st.dictionaries(NAMES, ARRAYS | LONG | PLAIN, max_size=5))
def test_what_is_saved_comes_back(state, tmp_path_factory):
    path = tmp_path_factory.mktemp("c") / "c.ckpt"
    first = reopened(path)
    assert first.state is None
    first.save(state)
    assert same(reopened(path).state, state)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "c.ckpt"
    reopened(path).save({"a": np.arange(50.0), "text": "tree " * 500, "n": 3})
    return path


@settings(max_examples=30)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_checkpoint_is_refused(written, share, tmp_path_factory):
    content = written.read_bytes()
    path = tmp_path_factory.mktemp("cut") / "c.ckpt"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FormatError, match="checkpoint"):
        reopened(path)


@settings(max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_damaged_checkpoint_is_refused_or_says_the_same(written, place, flip, tmp_path_factory):
    content = bytearray(written.read_bytes())
    content[int(place * len(content))] ^= flip
    path = tmp_path_factory.mktemp("damaged") / "c.ckpt"
    path.write_bytes(bytes(content))
    try:
        found = reopened(path)
    except GainfulError:
        return
    assert same(found.state, reopened(written).state)


def test_other_files_are_not_checkpoints(tmp_path, parts):
    path = tmp_path / "m.gainful"
    gainful.save(gainful.RegressionRanker().fit(parts[0]), path)
    with pytest.raises(FormatError, match="not a gainful checkpoint"):
        reopened(path)
    with pytest.raises(FormatError, match="does not exist; create it first"):
        reopened(tmp_path / "nowhere" / "c.ckpt")


@pytest.mark.parametrize(
    ("there", "here", "told"),
    [
        ({"class": "A"}, {"class": "B"}, "class was 'A' there and is 'B' here"),
        ({"params": {"C": 1.0}}, {"params": {"C": 2.0}}, r"C was 1\.0 there and is 2\.0 here"),
        ({"data": {"rows": 5}}, {"data": {"rows": 6}}, "rows of the data was 5 there and is 6 here"),
        ({}, {"data": {"rows": 6}}, "data was None there"),
        ({f"p{i}": 0 for i in range(5)}, {f"p{i}": 1 for i in range(5)}, "p0.*p1.*p2.* and 2 more"),
    ],
)
def test_the_checkpoint_of_another_training_is_refused(tmp_path, there, here, told):
    path = tmp_path / "c.ckpt"
    reopened(path, {"x": 0, **there}).save({})
    with pytest.raises(GainfulError, match=told + r".*\. Delete it to start afresh, or name another file"):
        reopened(path, {"x": 0, **here})


def changed(data, what):
    if what == "grades":
        y = data.y.copy()
        y[-1] += 1
        return data.replace(y=y)
    if what == "values":
        X = data.X.copy()
        X[-1, -1] += 1e-9
        return data.replace(X=X)
    if what == "weights":
        return data.replace(query_weights=np.linspace(1, 2, data.n_queries))
    offsets = data.offsets.copy()
    offsets[1] += 1
    return data.replace(offsets=offsets)


@pytest.mark.parametrize("what", ["grades", "values", "weights", "documents of queries"])
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_data_are_known_again(parts, what, stored):
    data, other = parts[0], changed(parts[0], what)
    one, two = data_facts(data.replace(X=stored(data.X))), data_facts(other.replace(X=stored(other.X)))
    assert one == data_facts(data.replace(X=stored(data.X.copy())))
    assert [name for name in one if one[name] != two[name]] == [what]


def test_a_fit_refuses_the_checkpoint_of_other_parameters_or_data(tmp_path, parts):
    path, (train, valid, test) = tmp_path / "c.ckpt", parts
    settings = {"n_trees": 6, "n_leaves": 4, "n_jobs": 1}
    with pytest.warns(InterruptedFitWarning):
        gainful.LambdaMART(**settings).fit(train, eval_set=valid, checkpoint=path, progress=Stop(2))
    for model, data, held_out, told in (
        (gainful.LambdaMART(**settings | {"n_leaves": 5}), train, valid, "n_leaves was 4 there and is 5 here"),
        (gainful.GBRank(**settings), train, valid, "class was 'LambdaMART' there and is 'GBRank' here"),
        (gainful.LambdaMART(**settings | {"n_jobs": 2}), train, valid, "number of threads was 1 there and is 2 here"),
        (gainful.LambdaMART(**settings), test, valid, "of the data"),
        (gainful.LambdaMART(**settings), train, test, "of the validation data"),
        (gainful.LambdaMART(**settings), train, None, "validation data was .* there and is None here"),
    ):
        with pytest.raises(GainfulError, match=told):
            model.fit(data, eval_set=held_out, checkpoint=path)
    assert path.exists()
    gainful.LambdaMART(**settings).fit(train, eval_set=valid, checkpoint=path)
    assert not path.exists()


# -- files that somebody changed, with sums that match -----------------------------------------------------------------


def edit(path, change):
    """Change the state in a checkpoint, and write it with the right checksums."""
    manifest, state = read_container(KIND, path, 1 << 30)
    change(state)
    write_container(KIND, path, pack(KIND, {"training": manifest["training"]}, state))


def loop_in_the_first_tree(state):
    """Make the root its own child; the text keeps its length."""
    start = state["trees"].index("left_child=") + len("left_child=")
    end = state["trees"].index(" ", start)
    state["trees"] = state["trees"][:start] + "0".zfill(end - start) + state["trees"][end:]


def put(**changed):
    return lambda state: state.update(changed)


def put_in_monitor(**changed):
    return lambda state: state["monitor"].update(changed)


TREE_HARM = {
    "loop": loop_in_the_first_tree,
    "feature": lambda state: put(trees=state["trees"].replace("split_feature=", "split_feature=9", 1))(state),
    "not trees": put(trees="tree\n" * 300),
    "no trees": lambda state: state.pop("trees"),
    "huge tree": put(tree=10**9),
    "tree is text": put(tree="x"),
    "seed": put(seed=-1),
    "no monitor": put(monitor=None),
    "best iteration": put_in_monitor(best_iteration=99),
    "history": lambda state: state["monitor"]["history"].pop(),
    "history of numbers": put_in_monitor(history=[1, 2]),
    "objective": put(objective=[1]),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Checkpoints of three kinds of training, stopped in their second iteration."""
    folder, (train, _) = tmp_path_factory.mktemp("stopped"), problem()
    for name in STOPPED:
        if name == "neural" and find_spec("torch") is None:
            continue
        with pytest.warns(InterruptedFitWarning):
            gainful.ranker(name, **STOPPED[name]).fit(
                train, checkpoint=folder / name, checkpoint_every=0, progress=Stop(2)
            )
    return folder


STOPPED = {
    "lambdamart": {"n_trees": 6, "n_leaves": 4, "n_jobs": 1, "colsample": 0.5},
    "ranksvm": {"tol": 1e-9},
    "neural": {"epochs": 3},
}


def refused(stopped, tmp_path, name, change):
    path, (train, _) = tmp_path / "c.ckpt", problem()
    shutil.copy(stopped / name, path)
    edit(path, change)
    with pytest.raises(FormatError, match=r"c\.ckpt: the checkpoint is damaged \(.+\); delete it to start afresh"):
        gainful.ranker(name, **STOPPED[name]).fit(train, checkpoint=path)
    assert path.exists()


def test_a_float_that_is_none_is_refused(stopped, tmp_path):
    refused(stopped, tmp_path, "ranksvm", lambda state: state.update({next(iter(state)): {"float": []}}))


@pytest.mark.parametrize("harm", TREE_HARM)
def test_a_harmful_checkpoint_of_trees_is_refused(stopped, tmp_path, harm):
    refused(stopped, tmp_path, "lambdamart", TREE_HARM[harm])


@pytest.mark.parametrize(
    "change",
    [
        put(questions=np.zeros((3, 5), dtype=np.int64)),
        put(gradients=np.zeros((0, 12))),
        put(numbers=np.zeros((1, 3))),
        put(seconds="soon"),
        lambda state: state.pop("numbers"),
    ],
)
def test_a_harmful_checkpoint_of_a_linear_ranker_is_refused(stopped, tmp_path, change):
    refused(stopped, tmp_path, "ranksvm", change)


@pytest.mark.parametrize(
    "change",
    [
        put(weights_0=np.zeros((1, 1))),
        put(kept_0=np.zeros((1, 1))),
        put(memory_0_exp_avg=np.zeros((1, 1), dtype=np.float32)),
        put(memory_99_exp_avg=np.zeros((1, 1), dtype=np.float32)),
        put(dropout=np.zeros(3, dtype=np.uint8)),
        put(order={"state": 1}),
        put(seed="x"),
        put(seed=-1),
        put(seed=2**70),
        put(memory_0_exp_avg=np.zeros((), dtype=np.float32)),
        put(memory_0_step=np.zeros((), dtype=bool)),
        lambda state: state.pop("memory_0_exp_avg"),
        lambda state: state.pop("kept_1"),
    ],
)
def test_a_harmful_checkpoint_of_a_net_is_refused(stopped, tmp_path, change):
    pytest.importorskip("torch")
    refused(stopped, tmp_path, "neural", change)


def test_when_it_is_written_and_deleted(tmp_path, monkeypatch):
    train, valid = problem()
    path, now, saves = tmp_path / "c.ckpt", [0.0], []
    monkeypatch.setattr("gainful.training.checkpoint.time.monotonic", lambda: now[0])
    save = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda self, state: (saves.append(now[0]), save(self, state)))

    def tick(event):
        now[0] += 1.0

    model = gainful.LambdaMART(n_trees=10, n_leaves=4, n_jobs=1, early_stopping=None)
    model.fit(train, progress=tick, checkpoint=path, checkpoint_every=3)
    assert saves == [3.0, 6.0, 9.0]
    assert not path.exists()
    model.fit(train, eval_set=valid, checkpoint=Checkpoint(path, every=0, keep=True))
    assert path.exists()


def test_training_continues_if_a_checkpoint_cannot_be_written(tmp_path):
    train, _ = problem()
    folder = tmp_path / "away"
    folder.mkdir()

    def lose(event):
        shutil.rmtree(folder, ignore_errors=True)

    model = gainful.LambdaMART(n_trees=3, n_leaves=4, n_jobs=1)
    with pytest.warns(CheckpointWarning, match="the checkpoint is not up to date: .*does not exist"):
        model.fit(train, progress=lose, checkpoint=folder / "c.ckpt", checkpoint_every=0)
    assert model.n_iter_ == 3


def test_what_cannot_be_a_checkpoint_is_refused(parts, tmp_path):
    with pytest.raises(ParameterError, match="checkpoint of fit must be a path or a Checkpoint, was 3"):
        gainful.LambdaMART().fit(parts[0], checkpoint=3)
    for every in (-1, float("nan"), float("inf"), "soon", True):
        with pytest.raises(ParameterError, match="checkpoint_every of fit must be a number of seconds ≥ 0"):
            gainful.LambdaMART().fit(parts[0], checkpoint=tmp_path / "c", checkpoint_every=every)


def test_rankers_that_cannot_resume_name_those_that_can(parts, tmp_path):
    with pytest.raises(ParameterError, match=r"AdaRank does not write checkpoints.*lambdamart") as caught:
        gainful.AdaRank().fit(parts[0], checkpoint=tmp_path / "c.ckpt")
    assert "adarank" not in str(caught.value)
