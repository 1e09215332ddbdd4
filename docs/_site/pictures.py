"""The pictures of the documentation, by headless Chromium from the pages of a demo: see ``make pictures``.

python docs/_site/pictures.py gainful-demo docs/pictures
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUERY = "Helper class to quickly write a loop over all standard input files."
PICTURES = {"search.png": (f"search.html#q={quote(QUERY)}&open", "1080,720")}
MOST_BYTES = 200_000


def main(source: Path, target: Path) -> None:
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"pictures need one of {', '.join(BROWSERS)}")
    target.mkdir(parents=True, exist_ok=True)
    for name, (page, size) in PICTURES.items():
        file, _, fragment = page.partition("#")
        address = f"{(source / file).resolve().as_uri()}#{fragment}"
        with tempfile.TemporaryDirectory() as profile:
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
            command += ["--hide-scrollbars", f"--window-size={size}", "--virtual-time-budget=20000"]
            subprocess.run([*command, f"--screenshot={target / name}", address], check=True, capture_output=True)
        bytes_ = (target / name).stat().st_size
        print(f"{target / name}: {bytes_:,} bytes")
        if bytes_ > MOST_BYTES:
            sys.exit(f"{name} is larger than {MOST_BYTES:,} bytes; make its window smaller")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
