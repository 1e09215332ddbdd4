"""Pages in headless Chromium, for the tests of reports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

LAYOUT = """
const root = page.documentElement;
for (const part of page.querySelectorAll("details")) part.open = true;
const wide = [...page.querySelectorAll("body *")].filter((e) => !e.closest(".scroll") && !e.closest("svg")
  && !e.matches(".skip") && e.getBoundingClientRect().right > root.clientWidth + 1);
const small = [...page.querySelectorAll("svg[role=img] text")].filter((e) => e.getBoundingClientRect().height < 8);
const cut = [...page.querySelectorAll("svg[role=img] text")].filter((e) => {
  const box = e.getBoundingClientRect(), frame = e.closest("svg").getBoundingClientRect();
  return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
    box.bottom > frame.bottom + 1; });
const names = (list) => list.slice(0, 5).map((e) => e.outerHTML.slice(0, 120));
return [root.scrollWidth - root.clientWidth, names(wide), names(small), names(cut),
  [...page.querySelectorAll("thead button")].every((b) => b.tabIndex === 0), view.innerWidth];
"""


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """Open a page in headless Chromium, run a script in it, give back what the script returns and the final page."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no Chromium to open the report in; install one of {', '.join(BROWSERS)}")
    folder = tmp_path_factory.mktemp("browser")

    def run(page: str, script: str, width: int = 1280) -> tuple:
        """The page is in a frame of the given width: Chromium's own window cannot be as narrow as a phone."""
        outer = (
            f'<!doctype html><iframe style="width:{width}px;height:900px;border:0" srcdoc="{escape(page)}"></iframe>'
            "<pre id=answer></pre><script>onload = () => { const view = frames[0], page = view.document; let told;"
            f"try {{ told = (() => {{ {script} }})(); }} catch (error) {{ told = String(error); }}"
            "document.getElementById('answer').textContent = JSON.stringify("
            "{told, error: page.documentElement.dataset.error ?? null}); }</script>"
        )
        (folder / "page.html").write_text(outer, "utf-8")
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
                "--window-size=1400,1000", "--virtual-time-budget=5000", "--enable-logging=stderr", "--v=0",
                "--dump-dom", (folder / "page.html").as_uri(),
            ],
            capture_output=True, text=True, encoding="utf-8", timeout=120, check=True,
        )  # fmt: skip
        assert "CONSOLE" not in done.stderr, done.stderr
        answer = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.S).group(1)
        said = json.loads(unescape(answer))
        assert said["error"] is None
        return said["told"]

    return run
