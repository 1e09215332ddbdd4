"""Members that no table of a maker's file knows, put into its models: they are refused by name.

Members without meaning for scores are added, changed and removed as well: the scores stay as they were. A maker that is
installed writes files itself.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gainful
from fuzz import foreign
from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.damage import below, pick
from gainful.errors import shorten
from gainful.foreign import catboost_json, ubjson, xgboost_model
from gainful.foreign.members import ANY, NO_MEANING, READ, Table

VALUES: list[Any] = [0, 1, -3, 2**31, "", "x", "0", [], [1, 2], [0] * 50, {}, {"a": 1}, {"name": "dart"}, [{"b": []}]]
STRANGE = ["", " ", "*", "weight_drop ", "Weights", "a\nb", "é", "name\x00", "x" * 300, "__class__"]
TREE = re.compile(rb"Tree=\d+\n(?:.+\n)+")


class Change(NamedTuple):
    """A file with a member changed that has no meaning, or, if ``refused``, with one that must be refused."""

    content: bytes
    member: str
    refused: bool


def letters(rng: Random) -> str:
    return "".join(pick(rng, "abcdefghijklmnopqrstuvwxyz_") for _ in range(int(rng.integers(3, 15)))) + "q"


# -- JSON and UBJSON ---------------------------------------------------------------------------------------------------


def objects_of(model: Any, known: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Every object of a model, with its place and its table; those that nothing is read from have none."""
    if isinstance(model, list):
        for each in model:
            yield from objects_of(each, known, where)
    elif isinstance(model, dict):
        yield where, model, known
        for name, value in model.items():
            rule = NO_MEANING if known == NO_MEANING else known.get(name, known.get(ANY))
            yield from objects_of(value, {} if rule == READ or isinstance(rule, tuple) else rule, f"{where}/{name}")


def names_of(known: Table, seen: set[int] | None = None) -> set[str]:
    """All names of a table and of those inside it."""
    seen = set() if seen is None else seen
    if id(known) in seen:
        return set()
    seen.add(id(known))
    return set(known).union(*(names_of(rule, seen) for rule in known.values() if isinstance(rule, dict)))


def change_object(model: Any, known: Table, rng: Random) -> tuple[str, bool]:
    """Add a member to an object, or change or remove one without meaning: its name, and whether it is refused."""
    places: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    for where, inside, own in objects_of(model, known):
        places.setdefault(where, []).append((inside, own))
    names = [*sorted(names_of(known)), *STRANGE]
    while True:
        inside, own = pick(rng, places[pick(rng, sorted(places))])
        idle = sorted(name for name in inside if own == NO_MEANING or own.get(name, own.get(ANY)) == NO_MEANING)
        if idle and rng.random() < 0.4:
            name = pick(rng, idle)
            inside[name] = pick(rng, VALUES)
            if rng.random() < 0.3:
                del inside[name]
            return name, False
        name, value = letters(rng) if rng.random() < 0.4 else pick(rng, names), pick(rng, VALUES)
        rule = NO_MEANING if own == NO_MEANING else own.get(name, own.get(ANY))
        if name not in inside and rule != READ and not isinstance(rule, dict):
            inside[name] = value
            return name, rule is None or (isinstance(rule, tuple) and value not in rule)


def change_xgboost(raw: bytes, rng: Random) -> Change:
    is_text = json_like(raw)
    model = json.loads(raw) if is_text else native(ubjson.Reader(raw).read())
    known = xgboost_model.MEMBERS[model["learner"]["gradient_booster"]["name"]]
    name, refused = change_object(model, known, rng)
    return Change(json.dumps(model).encode() if is_text else ubjson.dump(model), name, refused)


def change_catboost(raw: bytes, rng: Random) -> Change:
    model = json.loads(raw)
    kind = "oblivious_trees" if "oblivious_trees" in model else "trees"
    name, refused = change_object(model, catboost_json.MEMBERS[kind], rng)
    return Change(json.dumps(model).encode(), name, refused)


def json_like(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except ValueError:
        return False
    return True


def native(value: Any) -> Any:
    """What the writer of UBJSON takes."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, dict):
        return {name: native(inside) for name, inside in value.items()}
    if isinstance(value, list) and any(isinstance(each, float) for each in value):
        return np.array(value, dtype=np.float32)
    return [native(each) for each in value] if isinstance(value, list) else value


# -- texts -------------------------------------------------------------------------------------------------------------


def change_lightgbm(raw: bytes, rng: Random) -> Change:
    """A line more: in the header, in a tree (whose size is corrected), between the sections at the end or in one."""
    name, kind = letters(rng), int(rng.integers(5))
    line = f"{name}={int(rng.integers(9))}"
    head, _, rest = raw.partition(b"\n\n")
    body, end, tail = rest.partition(b"end of trees\n")
    if kind == 0:
        head = insert_line(head, line, rng, first=1)
    elif kind == 1:
        trees = re.split(rb"(?=Tree=)", body)[1:]
        place = below(rng, len(trees))
        lines, gap = trees[place].rstrip(b"\n"), trees[place][len(trees[place].rstrip(b"\n")) :]
        trees[place] = insert_line(lines, line, rng, first=1) + gap
        sizes = b" ".join(b"%d" % len(tree) for tree in trees)
        head, body = re.sub(rb"tree_sizes=.*", b"tree_sizes=" + sizes, head), b"".join(trees)
    elif kind == 2:
        name = f"{name}:"
        place = tail.index(pick(rng, [b"feature_importances:", b"parameters:", b"pandas_categorical:"]))
        place = 0 if tail[:place].endswith(b"end of ") else place
        tail = tail[:place] + f"{name}\n[x: 1]\n".encode() + tail[place:]
    elif kind == 3:
        tail = tail.replace(b"feature_importances:\n", f"feature_importances:\n{line}\n".encode())
    else:
        tail = tail.replace(b"\nparameters:\n", f"\nparameters:\n[{name}: 1]\n".encode())
    return Change(head + b"\n\n" + body + end + tail, name, kind < 3)


def change_ranklib(raw: bytes, rng: Random) -> Change:
    """An attribute, an element, or a comment more."""
    name, kind = letters(rng), int(rng.integers(4))
    tag = pick(rng, list(re.finditer(rb"<(ensemble|tree|split|feature|threshold|output)", raw)))
    at, more = (tag.end(), f' {name}="1"') if kind == 0 else (tag.start(), f"<{name}> 1 </{name}>")
    if kind == 2:
        at, more = raw.index(b"\n") + 1, f"## {name} = 1\n"
    elif kind == 3:
        more = f"<!-- {name} -->"
    if kind == 1 and tag[1] == b"ensemble":
        at = raw.index(b"<tree")
    return Change(raw[:at] + more.encode() + raw[at:], name, kind < 2)


def change_liblinear(raw: bytes, rng: Random) -> Change:
    head, mark, weights = raw.partition(b"\nw\n")
    name = letters(rng)
    return Change(insert_line(head, f"{name} {pick(rng, [0, 1, 'x'])}", rng, first=1) + mark + weights, name, True)


def change_svm_light(raw: bytes, rng: Random) -> Change:
    """A word more in a vector, another setting of the kernel, or a comment."""
    lines, name, kind = raw.decode().splitlines(), letters(rng), int(rng.integers(3))
    if kind == 0:
        at = int(rng.integers(11, len(lines)))
        lines[at] = lines[at].replace(" #", f" {name}:1 #")
    elif kind == 1:
        at = int(rng.integers(2, 7))
        lines[at] = f"{name if at == 6 else rng.normal()} #"
    else:
        at = below(rng, len(lines) - 1) + 1
        lines[at] += f" # {name}"
    return Change("\n".join(lines).encode() + b"\n", name, kind == 0)


def insert_line(text: bytes, line: str, rng: Random, first: int = 0) -> bytes:
    lines = text.split(b"\n")
    lines.insert(int(rng.integers(first, len(lines) + 1)), line.encode())
    return b"\n".join(lines)


# -- the targets -------------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[bytes, Random], Change]] = {
    "lightgbm": change_lightgbm,
    "xgboost": change_xgboost,
    "catboost": change_catboost,
    "ranklib": change_ranklib,
    "liblinear": change_liblinear,
    "svm-rank": change_svm_light,
}


def prepare(maker: str, folder: Path) -> Mapping[str, bytes]:
    """Models of one maker, also by itself if it is installed."""
    others = {"dart.json": "xgboost", "linear.json": "xgboost"}
    made = {name: raw for name, raw in foreign.prepare(folder).items() if maker in name or others.get(name) == maker}
    own = OWN.get(maker)
    if own is None or not importlib.util.find_spec(maker):
        return made
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, foreign.N_FEATURES))
    X[:, 0] = rng.integers(0, 9, 120)
    return made | own(importlib.import_module(maker), X, np.clip((X[:, 0] % 3 + X[:, 2]).round(), 0, 2), folder)


def by_catboost(catboost: Any, X: Any, y: Any, folder: Path) -> dict[str, bytes]:
    made = {}
    for policy in ("SymmetricTree", "Depthwise"):
        model = catboost.CatBoost({"iterations": 3, "depth": 3, "grow_policy": policy, "allow_writing_files": False})
        model.fit(X, y, verbose=False)
        model.save_model(str(folder / "own"), format="json")
        made[policy] = (folder / "own").read_bytes()
    return made


def by_xgboost(xgb: Any, X: Any, y: Any, _: Path) -> dict[str, bytes]:
    kinds: dict[str, dict[str, Any]] = {
        "trees": {"objective": "rank:ndcg", "lambdarank_unbiased": True},
        "dart": {"objective": "multi:softprob", "num_class": 3, "booster": "dart", "rate_drop": 0.5},
        "rates": {"objective": "reg:pseudohubererror", "rate_drop": 0.5},
        "weights": {"booster": "gblinear", "objective": "count:poisson", "updater": "coord_descent"},
    }
    made: dict[str, bytes] = {}
    for kind, params in kinds.items():
        types = ["q" if kind == "weights" else "c", "q", "q", "q"]
        data = xgb.DMatrix(X, y, feature_types=types, enable_categorical=True)
        data.set_group([30] * 4)
        booster = xgb.train({**params, "nthread": 1, "verbosity": 0, "max_depth": 3}, data, 4)
        booster.set_attr(best_iteration="1", mine="x")
        made |= {f"own-{kind}.{form}": bytes(booster.save_raw(form)) for form in ("json", "ubj")}
    return made


OWN = {"catboost": by_catboost, "xgboost": by_xgboost}


def make(maker: str, rng: Random, wholes: Wholes, whole: bool) -> Input:
    raw = wholes[pick(rng, sorted(wholes))]
    change = Change(raw, "", False) if whole else CHANGES[maker](raw, rng)
    facts = {"member": change.member, "refused": change.refused, "before": base64.b64encode(raw).decode()}
    return Input(change.content, "", facts)


def use(path: Path, options: Mapping[str, Any]) -> None:
    """Load the model before and after, and compare their scores."""
    before = path.with_name("before")
    before.write_bytes(base64.b64decode(options["before"]))
    known = gainful.load(before)
    name = options["member"]
    try:
        model = gainful.load(path)
    except gainful.FormatError as error:
        shown = [shorten(name, 40)[1:-1], name.replace("_", " ")]
        expect(options["refused"], f"a member without meaning is refused: {error}")
        expect(any(each in str(error) for each in shown), f"the member {name!r} is not named: {error}")
        raise
    expect(not options["refused"], f"a member that no table knows is read: {name!r}")
    rows = np.random.default_rng(0).normal(size=(40, known.n_features_in_)) * 3
    rows[:, 0] = np.abs(rows[:, 0]).round()
    rows[::7] = np.nan
    expect(np.array_equal(model.predict(rows), known.predict(rows)), f"{name!r} changes scores")


TARGETS = {
    f"members-{maker}": Target(functools.partial(make, maker), use, functools.partial(prepare, maker), foreign.warm)
    for maker in CHANGES
}
