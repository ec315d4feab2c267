"""A real Chromium, driven through its DevTools protocol: no driver program and no download of a browser of its own."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

from tests.system_packages import found_or_installed

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it refuses to run as root otherwise; it only opens what these tests have made
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-port=0",
    # Whatever is asked for beside loopback does not even resolve.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str:
    """The system's Chromium, installed by its package manager if that needs no asking.

    Raises:
        AssertionError: if there is none and none can be had: these tests are not skipped.
    """
    found = found_or_installed(lambda: next(filter(None, map(shutil.which, _NAMES)), None), "chromium")
    assert found, "These tests need a Chromium: install the system's package `chromium`."
    return found


class Page:
    """One page; `requests`, `dialogs` and `errors` collect what it did."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, suppress_origin=True, timeout=300)
        self._number = 0
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        # JupyterLab knows no current document in a page that has not the focus.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command; events that come in between are noted."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(message["params"]["url"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(message["params"]["message"])
                self._socket.send(
                    json.dumps({"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}})
                )
            case "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"].get("exception", {}).get("description")))
            case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])

    def open(self, url: str) -> None:
        """Go there, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str, *, seconds: float = float(os.environ.get("PAGE_SECONDS", "240"))) -> None:
        """Poll until a JavaScript condition holds."""
        deadline = time.monotonic() + seconds
        while not self.run(f"!!({condition})"):
            assert time.monotonic() < deadline, (
                condition,
                self.run("document.body.innerText.slice(0, 2000)"),
                self.errors,
            )
            time.sleep(0.1)

    def press(self, key: str, code: int) -> None:
        """A key, as from a keyboard."""
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Text into what has the focus, as from a keyboard."""
        self.call("Input.insertText", text=text)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Another screen."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def paper(self) -> bytes:
        """The page as it is printed, as a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def screenshot(self, path: Path) -> None:
        """What can be seen now, for a person to look at."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A browser with one empty page."""
    child = subprocess.Popen(
        [find_chromium(), *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ready = folder / "DevToolsActivePort"
        deadline = time.monotonic() + 120
        while not (ready.exists() and ready.read_text().count("\n") >= 1):
            assert child.poll() is None, "Chromium has ended."
            assert time.monotonic() < deadline
            time.sleep(0.1)
        port = ready.read_text().split()[0]
        import requests

        pages = requests.get(f"http://127.0.0.1:{port}/json", timeout=60).json()
        yield Page(next(it["webSocketDebuggerUrl"] for it in pages if it["type"] == "page"))
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(30)
