"""What versions of search engines do with missing values, and what is written for each."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import plain_readers
import pytest
from export_examples import TREES, awkward

import gainful
from gainful import GainfulError
from gainful.cli import run
from gainful.errors import ExportError
from gainful.exports.engines import OWN_SIDE, RIGHT, RULES, ZERO, find_rule, parse_version, rules_of

EXPORT_PAGE = Path(__file__).parents[2] / "docs" / "export.md"
NAMES = [f"f{j}" for j in range(1, 7)]


@pytest.fixture(scope="module")
def grown():
    """Boosted trees without and with missing values in training."""
    return {
        missing: gainful.LambdaMART(**TREES).fit(*awkward(missing)[:2], qid=awkward(missing)[2])
        for missing in (False, True)
    }


@pytest.fixture(scope="module")
def rows():
    return awkward(missing=True, seed=5)[0][:60].astype(np.float32).astype(np.float64)


def scores_in(version, done, rows):
    """What OpenSearch of this version scores, by its sources."""
    body = done.files[1].read_text()
    kind = json.loads(body)["model"]["model"]["type"]
    if kind == "model/ranklib":
        return [plain_readers.plugin(body, NAMES, row) for row in rows]
    if version < (3, 2):
        return [plain_readers.plugin(body, NAMES, np.nan_to_num(row)) for row in rows]
    if version < (3, 8):  # NaN is passed on, and no comparison with it is true
        return [plain_readers.plugin(body, NAMES, [math.inf if math.isnan(x) else x for x in row]) for row in rows]
    return [plain_readers.plugin(body, NAMES, row) for row in rows]


# -- the data ----------------------------------------------------------------------------------------------------------


def test_versions_of_a_form_follow_each_other():
    for engine, form in {(rule.engine, rule.form) for rule in RULES}:
        rules = list(rules_of(engine, form))
        assert rules[0].first is None
        assert rules[-1].last is None
        for earlier, later in pairwise(rules):
            assert earlier.last < later.first


@pytest.mark.parametrize(
    ("engine", "form", "version", "missing"),
    [
        ("opensearch", "xgboost", "2.19.6.0", ZERO),
        ("opensearch", "xgboost", "3.1.0", ZERO),
        ("opensearch", "xgboost", "3.2.0", RIGHT),
        ("opensearch", "xgboost", "3.7.0.0", RIGHT),
        ("opensearch", "xgboost", "3.8.0", OWN_SIDE),
        ("opensearch", "xgboost", "3.10", OWN_SIDE),
        ("opensearch", "xgboost", "4.0.0-SNAPSHOT", OWN_SIDE),
        ("opensearch", "ranklib", "3.5", ZERO),
        ("elasticsearch", "xgboost", "7.17.11", ZERO),
        ("elasticsearch", "xgboost", "8.9.2", ZERO),
        ("elasticsearch", "xgboost", "8.11.4", OWN_SIDE),
        ("elasticsearch", "xgboost", "9.0.8", OWN_SIDE),
        ("solr", "trees", "9.1.1", ZERO),
        ("solr", "trees", "v9.2", OWN_SIDE),
    ],
)
def test_rules_of_versions(engine, form, version, missing):
    assert find_rule(engine, form, parse_version(engine, version)).missing == missing


def test_the_table_of_the_page_is_the_data():
    lines = EXPORT_PAGE.read_text().splitlines()
    start = lines.index("| engine | form | a missing value | model trained without any | model trained with some |")
    shown = [line for line in lines[start + 2 :] if line.startswith("|")][: len(RULES)]
    right = {True: "right", False: "**wrong**"}
    assert shown == [
        f"| {rule.versions} | `{rule.form}` | {rule.missing} | {right[rule.missing != RIGHT]} | "
        f"{right[rule.missing == OWN_SIDE]} |"
        for rule in RULES
    ]
    assert not lines[start + 2 + len(RULES)].startswith("|")


# -- what is written ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "form"),
    [("2.19", "xgboost"), ("3.1", "xgboost"), ("3.2", "ranklib"), ("3.7", "ranklib"), ("3.8", "xgboost")],
)
def test_the_form_that_is_right_in_a_version(grown, rows, tmp_path, version, form):
    model = grown[False]
    done = gainful.export(model, tmp_path / "m.json", to="opensearch", engine_version=version)
    assert done.format == form
    found = scores_in(parse_version("opensearch", version), done, rows)
    assert np.allclose(found, model.predict(rows), atol=1e-5)
    noted = any("goes right in every split in OpenSearch 3.2 to 3.7 as xgboost" in note for note in done.notes)
    assert noted == (form == "ranklib")


def test_the_default_form_is_wrong_in_some_versions_and_the_note_says_so(grown, rows, tmp_path):
    done = gainful.export(grown[False], tmp_path / "m.json", to="opensearch")
    expected = grown[False].predict(rows)
    assert np.abs(np.array(scores_in((3, 5), done, rows)) - expected).max() > 0.1
    assert np.allclose(scores_in((3, 1), done, rows), expected, atol=1e-5)
    (note,) = (note for note in done.notes if "unlike in the model" in note)
    assert "in OpenSearch 3.2 to 3.7" in note
    assert "up to 3.1" not in note
    done = gainful.export(grown[True], tmp_path / "m.json", to="opensearch")
    (note,) = (note for note in done.notes if "unlike in the model" in note)
    assert "is read as 0 in OpenSearch up to 3.1" in note
    assert "engine_version" in note
    done = gainful.export(grown[False], tmp_path / "m.json", to="elasticsearch")
    assert not any("missing value" in note for note in done.notes)


@pytest.mark.parametrize(
    ("to", "version", "message"),
    [
        (
            "opensearch",
            "3.5",
            r"cannot be exported to OpenSearch 3\.5: .*upgrade to OpenSearch 3\.8, or use missing=\"zero\"",
        ),
        ("opensearch", "3.0", r"is read as 0 in OpenSearch up to 3\.1 as xgboost; .*is read as 0 in OpenSearch, every"),
        ("elasticsearch", "8.9.2", r"upgrade to Elasticsearch 8\.11"),
        ("solr", "9.1", r"is read as 0 in Solr up to 9\.1; upgrade to Solr 9\.2"),
    ],
)
def test_models_that_no_form_fits_are_refused(grown, rows, tmp_path, to, version, message):
    with pytest.raises(ExportError, match=message):
        gainful.export(grown[True], tmp_path / "no", to=to, engine_version=version)
    assert not list(tmp_path.iterdir())
    done = gainful.export(grown[True], tmp_path / "m.json", to=to, engine_version=version, missing="zero")
    if to == "opensearch":
        found = scores_in(parse_version(to, version), done, rows)
        assert np.allclose(found, grown[True].predict(np.nan_to_num(rows)), atol=1e-5)


def test_a_form_that_is_wrong_in_the_version_is_refused(grown, tmp_path):
    with pytest.raises(
        ExportError, match=r"reads a missing value as 0, but .* leave out format, or leave out engine_version"
    ):
        gainful.export(grown[False], tmp_path / "no", to="opensearch", format="xgboost", engine_version="3.5")
    gainful.export(grown[False], tmp_path / "m", to="opensearch", format="xgboost", engine_version="3.1")
    gainful.export(grown[True], tmp_path / "m", to="opensearch", format="xgboost", engine_version="3.8")


def test_the_check_reads_as_the_version_does(grown, tmp_path, monkeypatch):
    """With the choice of a form switched off, the check alone finds that 3.5 scores otherwise."""
    monkeypatch.setattr("gainful.exports.engines.Rule.suits", lambda rule, ensemble: True)
    for version in ("3.1", "3.5"):
        with pytest.raises(ExportError, match="does not score as the model does"):
            gainful.export(grown[True], tmp_path / "no", to="opensearch", engine_version=version)
    gainful.export(grown[True], tmp_path / "m", to="opensearch", engine_version="3.8")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"to": "opensearch", "engine_version": "3"}, "the minor version too, such as '3.5': versions 3.x of "),
        ({"to": "solr", "engine_version": "v9"}, "engine_version of export needs the minor version too, such as '9.2'"),
        ({"to": "elasticsearch", "engine_version": "8"}, "needs the minor version too, .* was '8'"),
        ({"to": "opensearch", "engine_version": "3."}, "be the version of OpenSearch itself, such as '3.5', was '3.'"),
        ({"to": "opensearch", "engine_version": 3.5}, "such as '3.5', was 3.5"),
        ({"to": "solr", "engine_version": "new"}, "the version of Solr itself"),
        ({"to": "elasticsearch", "engine_version": "1.5.9"}, "of Elasticsearch itself, such as '8.14.3', was"),
        ({"to": "onnx", "engine_version": "1.5"}, "engine_version of export is for elasticsearch, opensearch and solr"),
    ],
)  # fmt: skip
def test_bad_versions_are_refused(grown, tmp_path, settings, message):
    with pytest.raises(GainfulError, match=message):
        gainful.export(grown[False], tmp_path / "no", **settings)


@pytest.mark.parametrize(
    ("engine", "text", "version"),
    [("opensearch", "4", (4, 0)), ("opensearch", "2", (2, 0)), ("elasticsearch", "v9", (9, 0)), ("solr", "8", (8, 0))],
)
def test_a_major_version_is_enough_where_its_minor_versions_are_alike(engine, text, version):
    assert parse_version(engine, text) == version
    for form in {rule.form for rule in RULES if rule.engine == engine}:
        assert find_rule(engine, form, version) is find_rule(engine, form, (version[0], 99))


def test_linear_models_take_any_version(tmp_path):
    X, y, qid = awkward(missing=False)
    model = gainful.RegressionRanker().fit(X, y, qid=qid)
    done = gainful.export(model, tmp_path / "m.json", to="opensearch", engine_version="3.5")
    assert done.format == "linear"


def test_the_command_line_takes_a_version(grown, tmp_path, capsys):
    gainful.save(grown[True], tmp_path / "m.gainful")
    arguments = ["export", str(tmp_path / "m.gainful"), "-o", str(tmp_path / "m.json"), "--to", "opensearch"]
    assert run([*arguments, "--engine-version", "3.5"]) == 2
    told = capsys.readouterr().err
    assert "use --missing zero to have every missing value read as 0" in " ".join(told.split())
    assert run([*arguments, "--engine-version", "3.5", "--missing", "zero", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "ranklib"
    assert run([*arguments, "--engine-version", "three"]) == 2
    assert "--engine-version must be the version of OpenSearch itself" in " ".join(capsys.readouterr().err.split())
    assert run([*arguments, "--engine-version", "3"]) == 2
    assert "--engine-version needs the minor version too" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "onnx", "--engine-version", "3"], "--engine-version is for elasticsearch, opensearch and solr; onnx"),
        (["--to", "solr", "--feature-set", "f"], "--feature-set is for elasticsearch and opensearch; solr has none"),
        (["--to", "onnx", "--store", "s"], "--store is for solr; onnx has none"),
        (["--to", "json", "--format", "ranklib"], "--format is for elasticsearch and opensearch; json has only one"),
        (["--to", "solr", "--missing", "drop"], "--missing must be 'model' or 'zero', was 'drop'"),
        (["--to", "solr", "--name", " "], "--name must be a name, was ' '"),
    ],
)
def test_the_command_line_names_its_own_options(grown, tmp_path, capsys, arguments, message):
    gainful.save(grown[True], tmp_path / "m.gainful")
    assert run(["export", str(tmp_path / "m.gainful"), "-o", str(tmp_path / "m.json"), *arguments]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert message in told
    assert "of export" not in told
