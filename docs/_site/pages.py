"""The pages of the site that are made of the package itself, as Markdown: rankers, command line, Python interface."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import introduction

import gainful

ROOT = Path(__file__).parents[2]
KINDS = {
    "linear": "Linear models",
    "kernel": "Kernel models",
    "additive": "Sums of steps",
    "trees": "Boosted trees",
    "net": "Nets",
}
SUBJECTS: Mapping[str, tuple[str, str]] = {
    "data": ("Data and files", "Reading, dividing and describing ranking data."),
    "measuring": ("Metrics and losses", "What is measured, and what is minimised."),
    "classes": ("Ranker classes", "The classes behind the names of [the rankers](rankers.md)."),
    "comparing": ("Comparing and tuning", "Which ranker is better, by how much, with which parameters."),
    "using": ("Using a model", "Files, explanations, export, serving."),
    "errors": ("Errors", "What goes wrong is said in one line."),
}
BY_MODULE = {
    "data": ("data", "demo", "formats", "selection", "synthetic", "binning", "frames"),
    "measuring": ("metrics", "losses"),
    "classes": ("rankers", "monitor"),
    "comparing": ("comparison", "tuning", "space", "costs"),
    "errors": ("errors",),
}


# -- rankers -----------------------------------------------------------------------------------------------------------


def rankers_page() -> str:
    """Every ranker: what it is, formula, paper, parameters; by class, since names are settings of classes."""
    out = [
        "# Rankers\n",
        f"All {len(gainful.RANKERS)} names that `gainful.ranker` and the command line know, made from the registry. A "
        "name is a class with some parameters set; `gainful rankers NAME` prints the same table.\n",
        _table(("name", "kind", "what it is"), _overview()),
    ]
    for kind in dict.fromkeys(entry.kind for entry in gainful.RANKERS.values()):
        out.append(f"\n## {KINDS.get(kind, kind.capitalize())}\n")
        by_class: dict[str, list[Any]] = {}
        for entry in gainful.RANKERS.values():
            if entry.kind == kind:
                by_class.setdefault(entry.class_name, []).append(entry)
        out.extend(_class_section(name, entries) for name, entries in by_class.items())
    return "\n".join(out)


def _overview() -> Iterable[tuple[str, ...]]:
    for entry in gainful.RANKERS.values():
        yield f"[{entry.name}](#{entry.name})", entry.kind, entry.summary


def _class_section(class_name: str, entries: list[Any]) -> str:
    out = [f"### {class_name}\n", introduction(entries[0].cls.__doc__), ""]
    for entry in entries:
        out.append(f"#### `{entry.name}` {{ #{entry.name} }}\n\n{entry.summary}\n")
        settings = ", ".join(f"{name}={value!r}" for name, value in entry.params.items())
        facts = [f"`{class_name}({settings})`"]
        if loss := _loss(entry):
            facts.append(f"loss of a query: {_within(loss)}")
        if entry.paper:
            facts.append(entry.paper)
        if entry.needs:
            facts.append(f"training needs `{entry.needs}`, an optional dependency")
        out.extend(f"- {fact}" for fact in facts)
        out.append("")
    out.append(f"**Parameters of {class_name}**\n")
    out.append(_table(("parameter", "default", "may be", "what it does"), _parameters(entries[0].cls)))
    return "\n".join(out)


def _loss(entry: Any) -> str:
    named = entry.params.get("loss", "")
    return gainful.LOSSES[named].summary if named in gainful.LOSSES else ""


def _within(text: str) -> str:
    """A sentence that goes on after a colon: its first word small, unless that is a name or a letter."""
    first = text.split()[0]
    return text[0].lower() + text[1:] if first.istitle() else text


def _parameters(cls: Any) -> Iterable[tuple[str, ...]]:
    defaults = {name: p.default for name, p in inspect.signature(cls.__init__).parameters.items()}
    for name, constraint in cls.parameters.items():
        expected = constraint.expected()
        if expected.startswith("a loss ("):
            expected = "[a loss](../losses.md), or a function of scores and grades"
        yield f"`{name}`", f"`{defaults[name]!r}`", expected, constraint.help


# -- command line ------------------------------------------------------------------------------------------------------


def command_line_page() -> str:
    """Every command with its arguments and options, from the application itself."""
    out = [
        "# Command line\n",
        "Results go to stdout, progress and errors to stderr. A mistake in the input is one line and exit code 2. "
        "Every command takes `--help`.\n",
    ]
    out.extend(_command(name, command) for name, command in commands())
    return "\n".join(out)


def commands() -> Iterable[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    from gainful.cli.app import command

    return _leaves("gainful", command())


def _leaves(path: str, command: Any) -> Iterable[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, sub in below.items():
        yield from _leaves(f"{path} {name}", sub)


def _command(path: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    words = [p.name.upper() if p.required else f"[{p.name.upper()}]" for p in arguments]
    usage = " ".join([path, *words, *(["[OPTIONS]"] if options else [])])
    out = [f"## {path}\n", f"```text\n{usage}\n```\n", inspect.cleandoc(command.help or ""), ""]
    if arguments:
        out.append(_table(("argument", "what it is"), [(f"`{p.name.upper()}`", p.help or "") for p in arguments]))
        out.append("")
    if options:
        out.append(_table(("option", "what it does"), [_option(p) for p in options]))
        out.append("")
    return "\n".join(out)


def _option(option: Any) -> tuple[str, str]:
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    names = ", ".join(f"`{name}{value}`" for name in [*option.opts, *option.secondary_opts])
    told = not option.required and option.default not in (None, True, False, ()) and not callable(option.default)
    more = " Required." if option.required else f" Default: `{option.default}`." if told else ""
    return names, f"{option.help or ''}{more}"


# -- Python interface --------------------------------------------------------------------------------------------------


def subject_of(name: str) -> str:
    """The reference page that a public name belongs to, by the module it lives in."""
    module = gainful._MODULE_OF[name].split(".")[1]
    found = [subject for subject, modules in BY_MODULE.items() if module in modules]
    return found[0] if found else "using"


def interface_pages() -> dict[str, tuple[str, str]]:
    """Page → title and Markdown; together they hold every name of ``gainful.__all__``."""
    pages = {}
    for subject, (title, about) in SUBJECTS.items():
        names = [name for name in gainful.__all__ if subject_of(name) == subject]
        blocks = "\n".join(f"::: gainful.{name}\n" for name in sorted(names, key=_functions_first))
        pages[f"reference/{subject}.md"] = title, f"# {title}\n\n{about}\n\n{blocks}"
    return pages


def _functions_first(name: str) -> tuple[int, str]:
    value = getattr(gainful, name)
    return (2 if inspect.isclass(value) else 0 if callable(value) else 1), name


# -- pages from the root of the repository -----------------------------------------------------------------------------


def from_root(name: str) -> str:
    """A page of the repository's root, with links that lead to the pages of the site."""
    text = (ROOT / name).read_text()
    for old, new in {
        "](docs/decisions/)": "](decisions/index.md)",
        "](docs/": "](",
        "](README.md": "](index.md",
        "](CHANGELOG.md": "](changes.md",
        "](ARCHITECTURE.md": "](architecture.md",
        "](CONTRIBUTING.md": "](contributing.md",
    }.items():
        text = text.replace(old, new)
    return text


def titles(folder: str) -> dict[str, str]:
    """Page → title of every page in a folder of docs, by name: the decisions, the results of the experiments."""
    pages = sorted((ROOT / "docs" / folder).glob("*.md"))
    return {f"{folder}/{page.name}": _title(page) for page in pages}


def decisions_page() -> str:
    lines = [f"- [{title}]({Path(page).name})" for page, title in titles("decisions").items()]
    return "# Decisions\n\nChoices that could have gone another way, and why they went this way.\n\n" + "\n".join(lines)


def _title(page: Path) -> str:
    return re.sub(r"^#+\s*", "", page.read_text().splitlines()[0])


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    lines.extend(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    return "\n".join(lines) + "\n"
