"""What each version of a search engine does with a missing value in trees, as data.

A value is missing where a feature does not match the document. The rules were read from the sources of the plugins and
checked by running them. The form that is written, the notes, the check and the table in docs/export.md follow them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gainful.errors import ParameterError
from gainful.exports.describe import Described
from gainful.exports.formats import refuse, setting, setting_of_export
from gainful.rankers.ensembles import Ensemble

ZERO, RIGHT, OWN_SIDE = "is read as 0", "goes right in every split", "goes to the side its split names"
TITLES = {"elasticsearch": "Elasticsearch", "opensearch": "OpenSearch", "solr": "Solr"}
EXAMPLES = {"elasticsearch": "8.14.3", "opensearch": "3.5", "solr": "9.2"}
OLDEST = {"elasticsearch": 5}  # the major version that the first plugin was made for; a lower one is the plugin's own

Version = tuple[int, int]


@dataclass(frozen=True)
class Rule:
    """What an engine does with missing values in one form of trees, from version ``first`` to ``last``.

    Without ``first`` or ``last`` the range is open at that end. ``plugin`` is the plugin's own version, where it has
    one.
    """

    engine: str
    form: str
    first: Version | None
    last: Version | None
    missing: str
    plugin: str = ""

    @property
    def versions(self) -> str:
        """The engine and the range, in words."""
        name, first, last = TITLES[self.engine], _text(self.first), _text(self.last)
        if first and last:
            words = f"{name} {first} to {last}"
        elif first or last:
            words = f"{name} {first} and later" if first else f"{name} up to {last}"
        else:
            words = f"{name}, every version"
        return f"{words} (plugin {self.plugin})" if self.plugin else words

    def suits(self, ensemble: Ensemble) -> bool:
        """Whether the engine then does what the trees do with missing values."""
        if self.missing == ZERO:
            return ensemble.missing_is_zero
        if self.missing == RIGHT:
            return not any(np.any(tree.nan_left) for tree in ensemble.trees)
        return True


# For each engine its forms, the preferred one first, and of each form the versions in ascending order.
RULES = (
    Rule("opensearch", "xgboost", None, (3, 1), ZERO),
    Rule("opensearch", "xgboost", (3, 2), (3, 7), RIGHT),
    Rule("opensearch", "xgboost", (3, 8), None, OWN_SIDE),
    Rule("opensearch", "ranklib", None, None, ZERO),
    Rule("elasticsearch", "xgboost", None, (8, 9), ZERO, "up to 1.5.8"),
    Rule("elasticsearch", "xgboost", (8, 11), None, OWN_SIDE, "1.5.9 and later"),
    Rule("elasticsearch", "ranklib", None, None, ZERO),
    Rule("solr", "trees", None, (9, 1), ZERO),
    Rule("solr", "trees", (9, 2), None, OWN_SIDE),
)


def parse_version(engine: str, text: object) -> Version:
    """(major, minor) of ``"3.5"``, ``"v8.14.3"``, …; ``"2"`` is (2, 0), if the same rules hold in every 2.x."""
    found = re.fullmatch(r"v?(\d+)(?:\.(\d+)([.-].*)?)?", text) if isinstance(text, str) else None
    name = setting_of_export("engine_version")
    if found is None or int(found[1]) < OLDEST.get(engine, 0):
        expected = f"the version of {TITLES[engine]} itself, such as {EXAMPLES[engine]!r}"
        raise ParameterError(f"{name} must be {expected}, was {text!r}")
    major = int(found[1])
    if found[2] is None and _changes_within(engine, major):
        raise ParameterError(
            f"{name} needs the minor version too, such as {EXAMPLES[engine]!r}: versions {major}.x of {TITLES[engine]} "
            f"differ in what they do with missing values; was {text!r}"
        )
    return major, int(found[2] or 0)


def _changes_within(engine: str, major: int) -> bool:
    """Whether a rule starts after the first minor version of ``major``."""
    firsts = [rule.first for rule in RULES if rule.engine == engine and rule.first is not None]
    return any(first[0] == major and first[1] > 0 for first in firsts)


def rules_of(engine: str, form: str) -> Iterator[Rule]:
    return (rule for rule in RULES if (rule.engine, rule.form) == (engine, form))


def find_rule(engine: str, form: str, version: Version | None) -> Rule:
    """The rule of a version; without one, of the newest."""
    *_, found = (rule for rule in rules_of(engine, form) if version is None or (rule.first or version) <= version)
    return found


def choose_form(
    described: Described, ensemble: Ensemble, engine: str, version: str | None, asked: str | None = None
) -> tuple[Rule, tuple[str, ...]]:
    """The rule of the form to write, and notes; raises if no form is right in this version.

    The form is the one asked for, or the first that is right. Without a version it is the engine's preferred form, and
    a note says in which versions that is wrong.
    """
    forms = [asked] if asked else list(dict.fromkeys(rule.form for rule in RULES if rule.engine == engine))
    if version is None:
        return find_rule(engine, forms[0], None), _wrong_versions(ensemble, engine, forms[0])
    parsed = parse_version(engine, version)
    rules = [find_rule(engine, form, parsed) for form in forms]
    for rule in rules:
        if rule.suits(ensemble):
            return rule, () if rule is rules[0] else (f"written as {rule.form}: {_behaviour(rules[0])}",)
    does = "reads a missing value as 0" if ensemble.missing_is_zero else "gives missing values sides of their own"
    there = "; ".join(map(_behaviour, rules))
    where = f"{TITLES[engine]} {version}"
    raise refuse(described, where, f"the model {does}, but {there}", _ways_out(ensemble, engine, asked))


def _behaviour(rule: Rule) -> str:
    several = len({other.form for other in RULES if other.engine == rule.engine}) > 1
    return f"a missing value {rule.missing} in {rule.versions}" + (f" as {rule.form}" if several else "")


def _wrong_versions(ensemble: Ensemble, engine: str, form: str) -> tuple[str, ...]:
    wrong = [rule for rule in rules_of(engine, form) if not rule.suits(ensemble)]
    if not wrong:
        return ()
    there = "; ".join(map(_behaviour, wrong))
    return (f"unlike in the model, {there}; give {setting('engine_version')} to get what is right in yours",)


def _ways_out(ensemble: Ensemble, engine: str, asked: str | None) -> str:
    ways = [f"leave out {setting('format')}"] if asked else []
    if not ensemble.missing_is_zero:
        newest = next(rule for rule in RULES if rule.engine == engine and rule.missing == OWN_SIDE)
        ways = [
            f"upgrade to {TITLES[engine]} {_text(newest.first)}",
            f"use {setting('missing', 'zero')} to have every missing value read as 0",
        ]
    return ", or ".join([*ways, f"leave out {setting('engine_version')} if no feature is ever missing"])


def _text(version: Version | None) -> str:
    return "" if version is None else ".".join(map(str, version))
