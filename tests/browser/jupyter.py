"""JupyterLab as `workbench notebook` starts it, for a browser of the tests."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import requests

from tests.browser.devtools import Page
from workbench.cli.notebook_folder import lab_command, lab_environment, prepare
from workbench.lab.process import free_port

ROOT = Path(__file__).parent.parent.parent
_TOKEN = "a-token-for-this-test"

# JupyterLab calls a kernel idle before there is one; what it says after a round trip is true.
_NOTEBOOK = "[...window.jupyterapp.shell.widgets('main')].find(it => it.sessionContext)"
_READY = f"""(async () => {{
  await window.jupyterapp.restored;
  const panel = {_NOTEBOOK};
  window.jupyterapp.shell.activateById(panel.id);
  await panel.context.ready; await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info;
  return true;
}})()"""
RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)"
STATUS = "(document.querySelector('.wb-status')||{}).textContent"

Address = Callable[..., str]


@contextmanager
def jupyterlab(room: Path, *, environment: Mapping[str, str | None]) -> Iterator[Address]:
    """A running JupyterLab; gives the address of a notebook by name, with what else stands in its query."""
    folder = room / "notebooks"
    prepare(folder, ROOT / "notebooks")
    port = free_port()
    more = (f"--IdentityProvider.token={_TOKEN}", "--LabApp.expose_app_in_browser=True", "--ServerApp.port_retries=0")
    words = lab_command(folder, "lag_triage.ipynb", port=port, browser=False, more=more)
    own = {
        **lab_environment(folder, dict(environment)),
        "JUPYTER_CONFIG_DIR": str(room / "config"),
        "JUPYTER_RUNTIME_DIR": str(room / "runtime"),
        "XDG_CONFIG_HOME": str(room / "config"),
        "XDG_STATE_HOME": str(room / "state"),
    }
    log = (room / "jupyter.log").open("w")
    child = subprocess.Popen(words, env=own, stdout=log, stderr=log, start_new_session=True)

    numbers = itertools.count(1)

    def address(name: str, **query: str) -> str:
        # A copy for each test, hence a kernel: a kernel keeps its panel, with what it showed last.
        own = f"{name}-{next(numbers)}.ipynb"
        shutil.copy(folder / f"{name}.ipynb", folder / own)
        return f"http://127.0.0.1:{port}/lab/tree/{own}?reset&token={_TOKEN}" + (
            f"&{urlencode(query)}" if query else ""
        )

    try:
        deadline = time.monotonic() + 240
        while True:
            assert child.poll() is None, (room / "jupyter.log").read_text()[-2000:]
            assert time.monotonic() < deadline, (room / "jupyter.log").read_text()[-2000:]
            try:
                requests.get(f"http://127.0.0.1:{port}/api/status?token={_TOKEN}", timeout=5).raise_for_status()
                break
            except requests.RequestException:
                time.sleep(0.3)
        yield address
    finally:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(30)
        log.close()


def opened(page: Page, address: str) -> None:
    """Open a notebook with a panel: its cells run by themselves, and the panel is there."""
    page.open(address)
    page.wait("document.querySelector('.wb-panel') && document.querySelector('.wb-panel button')", seconds=90)


def open_and_run(page: Page, address: str) -> None:
    """Open a notebook without a panel, and run all its cells."""
    page.open(address)
    page.wait(f"window.jupyterapp && {_NOTEBOOK}")
    assert page.run(_READY)
    assert page.run(RUN_ALL)


def click(page: Page, hook: str) -> None:
    """Press a button, once it can be pressed."""
    page.wait(f"document.querySelector('button.{hook}') && !document.querySelector('button.{hook}').disabled")
    page.run(f"document.querySelector('button.{hook}').click()")


def enter(page: Page, hook: str, text: str) -> None:
    """Put text into an input."""
    page.run(
        f"(() => {{ const it = document.querySelector('.{hook} input'); it.focus(); it.value = {json.dumps(text)};"
        " for (const name of ['input', 'change']) it.dispatchEvent(new Event(name, {bubbles: true})); it.blur(); })()"
    )


def text_of(page: Page, hook: str) -> str:
    """What a part of the panel says."""
    return str(page.run(f"(document.querySelector('.{hook}')||{{innerText: ''}}).innerText"))
