"""A real Chromium without a window, spoken to over its own pipe (Chrome DevTools Protocol): no driver, no packages."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.programs import needed

CODES = {"Enter": 13, "Tab": 9, " ": 32, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def program() -> str:
    return needed(*NAMES)


@cache
def axe() -> str:
    """axe-core's script, from the package that ships it. Nothing of the package is imported."""
    found = find_spec("axe_playwright_python")
    assert found is not None and found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0], "axe.min.js").read_text(encoding="utf-8")


class Browser:
    """One page. `problems`: exceptions and console errors; `requests`: every URL that was asked for."""

    def __init__(self, program: str, profile: Path) -> None:
        reader, child_out = os.pipe()
        child_in, writer = os.pipe()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._left = b""
        self._reader, self._writer = reader, writer
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run", "about:blank"]

        def descriptors() -> None:
            os.dup2(child_in, 1003)
            os.dup2(child_out, 1004)
            os.dup2(1003, 3)
            os.dup2(1004, 4)
            for number in (3, 4):
                os.set_inheritable(number, True)

        self._process = subprocess.Popen(
            [program, *flags],
            preexec_fn=descriptors,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_in)
        os.close(child_out)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._reader)
        os.close(self._writer)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result
            self._note(told)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._reader, 2**20)
            assert data, "the browser is gone"
            self._left += data
        line, _, self._left = self._left.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        method, parameters = told.get("method"), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(str(parameters["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def open(self, page: Path) -> None:
        self.call("Page.navigate", url=page.as_uri())
        while self.run("document.readyState") != "complete":
            pass

    def run(self, code: str) -> Any:
        """The value of a JavaScript expression."""
        told = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def press(self, key: str) -> None:
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            code = CODES[key]
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code)

    def colours(self, scheme: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def on_paper(self) -> None:
        """The page as it is printed."""
        self.call("Emulation.setEmulatedMedia", media="print")

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def violations(self, within: str = "document") -> list[str]:
        """What axe-core finds in the page, or in what a selector names, as it is now: the rule and the first node of
        each violation."""
        self.run(f"{axe()}; 0")
        found = self.run(f"axe.run({within}, " + "{resultTypes: ['violations']}).then((told) => told.violations)")
        return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found]

    def accessible(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self.call("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]
