"""Chromium driven as by a person, with keys, clicks and drops: its DevTools protocol over a pipe, without a package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from browser import BROWSERS

WAIT = 60.0  # seconds, on a machine that may be busy
KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "Space": (32, " "),
    "ArrowDown": (40, ""),
    "ArrowUp": (38, ""),
}
SHIFT, CONTROL = 8, 2


class Chromium:
    """A headless browser with one tab. ``mistakes``: lines of its console; ``asked``: addresses it requested."""

    def __init__(self, folder: Path):
        found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
        if found is None:
            pytest.skip(f"no Chromium to open the page in; install one of {', '.join(BROWSERS)}")
        fcntl = pytest.importorskip("fcntl")
        (reads, self._write), (self._read, writes) = os.pipe(), os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (reads, writes)]  # 3 and 4 are for the browser
        command = [
            found, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
            "--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command,
            close_fds=False,  # those of Python close by themselves, and pass_fds would want 3 and 4 open here
            preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (reads, writes, *ends):
            os.close(end)
        self._buffer, self._last = b"", 0
        self.mistakes: list[str] = []
        self.asked: list[str] = []
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{part}.enable")

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")
        self.process.wait(WAIT)
        os.close(self._read)
        os.close(self._write)

    # -- protocol ------------------------------------------------------------------------------------------------------

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._last:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], WAIT)[0], "Chromium does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.mistakes.append(str(event["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.mistakes.append(str(event["params"]["args"]))
            case "Log.entryAdded":
                self.mistakes.append(event["params"]["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(event["params"]["request"]["url"])

    # -- what a person does --------------------------------------------------------------------------------------------

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        size = {"width": width, "height": height}
        self.send("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + WAIT
        while not self.evaluate(f"Boolean({condition})"):
            shown = self.evaluate("document.body?.innerText.slice(0, 2000)")
            assert time.monotonic() < end, f"{condition} did not come about; the page shows:\n{shown}"
            time.sleep(0.01)

    def click(self, selector: str) -> None:
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const box = e.getBoundingClientRect();"
            "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def press(self, key: str, modifiers: int = 0) -> None:
        code, text = KEYS[key]
        shared = {"key": " " if key == "Space" else key, "code": key, "modifiers": modifiers}
        down = {"text": text} if text else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", windowsVirtualKeyCode=code, **shared, **down)
        self.send("Input.dispatchKeyEvent", type="keyUp", windowsVirtualKeyCode=code, **shared)

    def drop(self, path: Path) -> None:
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.send("Input.dispatchDragEvent", type=kind, x=100, y=100, data=data)

    def give_file(self, selector: str, path: Path) -> None:
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def screenshot(self, path: Path) -> None:
        found = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))
