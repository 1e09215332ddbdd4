"""Text for a terminal: control characters are shown, never obeyed.

Ids, feature names and file names come from outside. An escape sequence in one could move the cursor, change the title
or hide text; a bidirectional control could turn a name around.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

# control characters other than tab and newline, line and paragraph separators, bidirectional controls, surrogates
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

PLAIN = "gainful-plain"  # how a stream writes what its encoding lacks: in ASCII, and "?" where there is nothing like it
IN_ASCII = {
    "−": "-", "–": "-", "±": "+-", "×": "x", "·": "*", "≥": ">=", "≤": "<=", "→": "->", "★": "*", "▲": "^", "▼": "v",
    "…": "...", "∞": "inf", "₊": "+", "Δ": "delta", "Σ": "sum", "Ψ": "psi", "γ": "gamma", "δ": "delta", "μ": "mu",
    "ρ": "rho", "σ": "sigma", "τ": "tau",
}  # fmt: skip


def visible(text: str) -> str:
    """``text`` with control characters written as escapes: ``\\x1b[31m``, ``\\u202e``."""
    return UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def make_console(**settings: Any) -> Console:
    """A console of Rich that makes everything it prints :func:`visible`; use no other one."""
    return _console_class()(**settings)


def _in_ascii(error: Any) -> tuple[str, int]:
    return "".join(IN_ASCII.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


codecs.register_error(PLAIN, _in_ascii)


@cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

    class VisibleConsole(Console):
        def render_str(self, text: str, *given: Any, **named: Any) -> Text:
            return super().render_str(visible(text), *given, **named)  # before tables measure it

        def render(self, *given: Any, **named: Any) -> Iterable[Segment]:
            for segment in super().render(*given, **named):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    return VisibleConsole
