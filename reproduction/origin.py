"""Where a table comes from (command, date, version, commit), and where results are stored until it is complete."""

from __future__ import annotations

import hashlib
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gainful
from gainful.comparison.to_dict import versions

HERE = Path(__file__).parent
PACKAGE = Path(gainful.__file__).parent
NOT_TRAINING = ("cli", "comparison")  # folders that no trained model depends on


def origin(command: str) -> dict[str, Any]:
    """The facts printed under a table."""
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "versions": versions() | {"gainful": gainful.__version__},
    }


def commit() -> str | None:
    """The commit of the checkout, and whether the code has changed since; None outside git."""
    try:
        found = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", str(PACKAGE), str(HERE))
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{found} with changes" if changed else found


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, check=True, capture_output=True, text=True, timeout=20)
    return done.stdout.strip()


def code_print() -> str:
    """A short hash of the code that results depend on, so that no table mixes results of two versions."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if inside.parts[0] not in NOT_TRAINING:
            digest.update(inside.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def cache_folder(name: str) -> Path:
    """A folder in the user's cache (``XDG_CACHE_HOME``, or ``~/.cache``)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gainful" / "reproduce" / name
