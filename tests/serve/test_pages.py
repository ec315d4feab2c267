"""The pages in a real Chromium: narrow, dark, by keyboard alone, fast, small, and hostile names are inert."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests

from tests.audit.states import edge, state, stream, window
from tests.browser.devtools import Page, chromium
from tests.browser.looking import FITS, PICTURES, inert, within
from tests.serve.serving import HOSTILE, TOKEN, Office, Running, alert, judged, running, webhook
from workbench.report.audit_state import AuditState, SilentLayer, write_state
from workbench.report.runs.run_record import REPORT, RunRecord, write_record
from workbench.serve import fleet_verdicts
from workbench.serve.audits import Shelf
from workbench.serve.kept_verdict import Judged

pytestmark = pytest.mark.apt

PAGES = ("/", "/incidents", "/audits", "/reports", "/runbooks/SlowProcessor.md", "/runbooks/AuditLoss.md")
MAX_BYTES = 300_000


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser."""
    with chromium(tmp_path / "chromium") as opened:
        yield opened


def many(number: int) -> list[Judged]:
    """A fleet: two in trouble with hostile names, the rest healthy."""
    sick = [
        judged(HOSTILE, HOSTILE, headline=HOSTILE),
        judged("payments", "orders", headline="payments waits for refund."),
    ]
    return [*sick, *(judged(f"group-{n:04}", "orders", "healthy", time_lag_seconds=0.2) for n in range(number - 2))]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    """A server with 2,000 subscriptions over 30 days, an open incident with hostile names, a note, and a report."""
    office = Office(tmp_path)
    present = office.clock.now
    for day in range(30, 0, -1):
        office.clock.now = present - day * 86_400
        verdict = "slow_processor" if day % 5 == 0 else "healthy"
        fleet_verdicts.record(office.store, "prod", [judged("payments", "orders", verdict)], every_seconds=86_400)
    office.clock.now = present
    fleet_verdicts.record(office.store, "prod", many(2000), every_seconds=60)
    office.oracle.says = lambda _q: many(2)
    write_state(tmp_path, audited(office.clock.now))
    with running(office, threads=False, reports=report(tmp_path), audits=Shelf(tmp_path, [HOSTILE])) as server:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        body = webhook(alert(HOSTILE, HOSTILE, alertname=HOSTILE), alert())
        requests.post(f"{server.url}/alerts", body, headers=headers, timeout=10).raise_for_status()
        office.worker.judge_alerts()
        yield server


def audited(now: float) -> AuditState:
    """What an audit of 2,000 streams says: one with a hostile name lacks records, one is silent."""
    made = datetime.fromtimestamp(now, UTC)
    wrong = edge(
        lost=40, doubled=25, unknown=2, breach="40 records lost and 25 records doubled of 1,000; S1 allows 0.01%."
    )
    waiting = edge("gateway → collector", late=3, open=30, overdue_seconds=4_000.0)
    silent = SilentLayer(layer="gateway", told=made - timedelta(hours=1), seconds=3_600.0)
    windows = tuple(window(HOSTILE, state=it) for it in ("open", "provisional", "final", "amended"))
    streams = [stream(HOSTILE, edge("gateway"), waiting, wrong), stream("silent", waiting, silent=(silent,))]
    streams += [stream(f"stream-{n:04}", edge("gateway → collector"), edge()) for n in range(1998)]
    return state(*streams, windows=windows, made_at=made, since=made - timedelta(hours=6), until=made)


def report(folder: Path) -> Path:
    """A folder with one finished run."""
    out = folder / "reports"
    (out / "run-1").mkdir(parents=True)
    (out / "run-1" / REPORT).write_text(
        "<!doctype html><title>Report</title><h1>Health</h1><script>document.title='ran'</script>"
    )
    now = "2026-11-20T00:00:00Z"
    values = {
        "run_id": "run-1",
        "report": "health",
        "cluster": HOSTILE,
        "parameters": {},
        "state": "done",
        "started_at": now,
    }
    record = RunRecord.model_validate(
        {**values, "deadline_seconds": 60, "pid": 1, "process_started": 0, "seconds": 3.0}
    )
    write_record(out / "run-1", record)
    return out


def sign_in(page: Page, url: str) -> None:
    """By keyboard alone: the form has the focus."""
    page.open(url + "/incidents")
    page.wait("location.pathname === '/sign-in' && document.activeElement.id === 'token'")
    page.type(TOKEN)
    page.press("Enter", 13)
    page.wait("location.pathname === '/incidents' && document.readyState === 'complete'")


def addresses(server: Running) -> list[str]:
    """Every page."""
    [incident] = [row["id"] for row in server.store.rows("SELECT id FROM incident")]
    stream = urlencode({"audit": "orders", "stream": HOSTILE})
    return [*PAGES, f"/incidents/{incident}", "/group?cluster=prod&group=payments", f"/audit?{stream}"]


def test_every_page_fits_and_is_inert(page: Page, served: Running) -> None:
    """Wide, at 390 px, light and dark, without an error of the policy, and nothing is asked of another host."""
    sign_in(page, served.url)
    for number, path in enumerate(addresses(served)):
        for width, dark in ((1440, False), (1280, True), (700, False), (390, False), (390, True)):
            page.resize(width, 844, dark=dark)
            page.open(served.url + path)
            page.wait("document.querySelector('h1')")
            assert page.run(FITS), (path, width, page.run("document.documentElement.scrollWidth"))
            page.screenshot(PICTURES / f"serve-{number}-{width}{'-dark' if dark else ''}.png")
            paper = page.run("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") is not dark
    assert page.errors == []
    inert(page)


def test_pages_are_small_and_fast(page: Page, served: Running) -> None:
    """At most 300 kB with style and script, the first paint within a second, the answer within 300 ms, with 2,000 subscriptions."""
    sign_in(page, served.url)
    session = requests.Session()
    session.post(f"{served.url}/sign-in", data={"token": TOKEN}, timeout=10)
    assets = sum(
        len(session.get(f"{served.url}/static/{name}", timeout=10).content) for name in ("serve.css", "serve.js")
    )
    for path in addresses(served):
        started = time.monotonic()
        answer = session.get(served.url + path, timeout=10)
        within(time.monotonic() - started, 0.3, f"{path} answered")
        assert len(answer.content) + assets < MAX_BYTES, path
        page.open(served.url + path)
        page.wait("performance.getEntriesByName('first-paint').length")
        paint = page.run("performance.getEntriesByName('first-paint')[0].startTime")
        within(paint / 1000, 1.0, f"{path} painted")


def test_the_keyboard_reaches_everything(page: Page, served: Running) -> None:
    """From the filter to an incident, a note on it, and out; the focus is always seen."""
    sign_in(page, served.url)
    page.resize(1280, 900)
    page.open(served.url + "/")
    page.press("Tab", 9)
    assert page.run("document.activeElement.className") == "skip"
    for _ in range(30):
        page.press("Tab", 9)
        if page.run("document.activeElement.name === 'text'"):
            break
    page.type("payments")
    page.press("Enter", 13)
    page.wait("location.search.includes('payments') && document.querySelectorAll('[data-live] tbody tr').length >= 1")
    assert page.run("[...document.querySelectorAll('a[href*=\"group=\"]')].length") == 1
    for _ in range(40):
        page.press("Tab", 9)
        if page.run("(document.activeElement.getAttribute('href') || '').startsWith('/incidents/')"):
            break
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("Enter", 13)
    page.wait("location.pathname.startsWith('/incidents/') && document.getElementById('words')")
    page.run("document.getElementById('words').focus()")
    page.type("<b>rolled back</b>")
    for _ in range(3):
        page.press("Tab", 9)
    page.press("Enter", 13)
    page.wait("document.querySelector('.entry .typed')?.textContent === '<b>rolled back</b>'")
    assert page.errors == []


def test_a_report_runs_in_a_sandbox(page: Page, served: Running) -> None:
    """Its scripts run, but they see no cookie and no page of the server."""
    sign_in(page, served.url)
    page.open(f"{served.url}/reports/run-1")
    page.wait("document.title === 'ran'")
    assert page.run("window.origin") == "null"
    assert (
        page.run("(() => { try { return document.cookie } catch (error) { return error.name } })()") == "SecurityError"
    )
