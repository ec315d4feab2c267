"""Rules of what people see, in a real Chromium: it works offline, hostile names are inert, nothing leaves this computer."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.browser.devtools import Page, chromium
from tests.widgets.test_panel import hostile_capture
from workbench.cli.notebook import lab_command, lab_environment, prepare
from workbench.collect.capture import write_capture
from workbench.lab.process import free_port
from workbench.report import health
from workbench.report.html import write_html
from workbench.triage.engine import triage

pytestmark = [pytest.mark.jvm, pytest.mark.apt]

ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / "build" / "screens"
_TOKEN = "a-token-for-this-test"
_SHARE = 'document.querySelector(\'[data-title^="Share"], [data-title*="cloud" i]\')'
# The whole page is on the screen, however narrow it is.
_FITS = "document.documentElement.scrollWidth <= window.innerWidth"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser."""
    with chromium(tmp_path / "chromium") as opened:
        yield opened


def inert(page: Page) -> None:
    """No name became an element or ran, and no request went anywhere but loopback or the file itself."""
    assert page.dialogs == []
    assert page.run("document.querySelectorAll('img[src=\"x\"]').length") == 0
    for url in page.requests:
        parts = urlsplit(url)
        assert parts.scheme in ("file", "data", "blob", "about") or parts.hostname == "127.0.0.1", url


def test_the_report_opens_from_a_file_with_the_network_off(page: Page, spark: Any, tmp_path: Path) -> None:
    """Charts are drawn under the strict policy; wide, narrow and dark; a health report's links lead to its findings."""
    capture = hostile_capture()
    result = triage(capture, spark)
    write_html(tmp_path / "triage.html", result, capture)
    start, end = capture.window.baseline_start, capture.window.end
    health.publish(health.assess(capture, result, {}, start=start, end=end, run_id="r"), str(tmp_path))
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    for name in ("triage.html", "report.html"):
        page.resize(1280, 900)
        page.open((tmp_path / name).as_uri())
        page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
        page.wait("document.querySelectorAll('svg.tree .node.taken').length >= 2")
        page.screenshot(PICTURES / f"{name.removesuffix('.html')}-1280.png")
        assert page.run(_SHARE) is None
        page.resize(1280, 900, dark=True)
        page.screenshot(PICTURES / f"{name.removesuffix('.html')}-dark.png")
        page.resize(390, 844)
        page.wait(_FITS)
        page.screenshot(PICTURES / f"{name.removesuffix('.html')}-390.png")
    assert page.run("document.querySelector('#overview a').getAttribute('href')") == "#finding-0"
    assert page.run("!!document.getElementById('finding-0')")
    assert page.errors == []
    inert(page)


@pytest.fixture
def jupyter(tmp_path: Path) -> Iterator[str]:
    """JupyterLab on a hostile capture; its address."""
    write_capture(tmp_path / "capture", hostile_capture())
    with jupyterlab(tmp_path, tmp_path / "capture") as address:
        yield address


@contextmanager
def jupyterlab(tmp_path: Path, capture: Path) -> Iterator[str]:
    """JupyterLab as `workbench notebook` starts it, on a capture; its address."""
    folder = tmp_path / "notebooks"
    prepare(folder, ROOT / "notebooks")
    port = free_port()
    more = (f"--IdentityProvider.token={_TOKEN}", "--LabApp.expose_app_in_browser=True", "--ServerApp.port_retries=0")
    words = lab_command(folder, "lag_triage.ipynb", port=port, browser=False, more=more)
    environment = {
        **lab_environment(folder, {"WORKBENCH_CAPTURE": str(capture)}),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    log = (tmp_path / "jupyter.log").open("w")
    child = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 240
        while True:
            assert child.poll() is None, (tmp_path / "jupyter.log").read_text()[-2000:]
            assert time.monotonic() < deadline, (tmp_path / "jupyter.log").read_text()[-2000:]
            try:
                requests.get(f"http://127.0.0.1:{port}/api/status?token={_TOKEN}", timeout=5).raise_for_status()
                break
            except requests.RequestException:
                time.sleep(0.3)
        yield f"http://127.0.0.1:{port}/lab/tree/lag_triage.ipynb?reset&token={_TOKEN}"
    finally:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(30)
        log.close()


# JupyterLab calls a kernel idle before there is one; what it says after a round trip is true.
FIND_PANEL = "[...window.jupyterapp.shell.widgets('main')].find(it => it.sessionContext)"
READY = f"""(async () => {{
  await window.jupyterapp.restored;
  const panel = {FIND_PANEL};
  window.jupyterapp.shell.activateById(panel.id);
  await panel.context.ready; await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info;
  return true;
}})()"""
RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)"
STATUS = "(document.querySelector('.wb-status')||{}).textContent"


def test_the_triage_panel_from_opening_to_verdict(page: Page, jupyter: str) -> None:
    """Run all, cancel, find by keyboard, read; what was typed survives a cell that is run again."""
    page.resize(1280, 1400)
    page.open(jupyter)
    page.wait(f"window.jupyterapp && {FIND_PANEL}")
    assert page.run(READY)
    assert page.run(RUN_ALL)
    page.wait("document.querySelector('button.wb-find')")
    page.run("document.querySelector('button.wb-find').click()")
    page.wait("!document.querySelector('button.wb-cancel').disabled")
    page.run("document.querySelector('button.wb-cancel').click()")
    page.wait("['Cancelled.', 'Done.'].includes(" + STATUS + ")")
    page.run("document.querySelector('button.wb-find').focus()")
    page.press("Enter", 13)
    page.wait("document.querySelector('.wb-answer svg.tree .leaf.taken') && " + STATUS + " === 'Done.'")
    assert "slow processor" in page.run("document.querySelector('.wb-answer').innerText")
    page.wait("document.querySelectorAll('.wb-charts .js-plotly-plot .main-svg').length >= 5")
    page.wait("document.querySelectorAll('.wb-choice option').length === 2")
    assert page.run(_SHARE) is None
    page.screenshot(PICTURES / "panel-1280.png")
    inert(page)
    page.run(
        "(() => { const it = document.querySelector('.wb-topic input'); it.value = 'typed';"
        " it.dispatchEvent(new Event('change', {bubbles: true})); it.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    assert page.run(RUN_ALL)
    page.wait("[...document.querySelectorAll('.wb-topic input')].every(it => it.value === 'typed')")
    inert(page)
