"""Take the pictures of README and docs/: `make pictures`. Small PNGs in notebooks/images, at most 1 MB in all."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka.admin import AdminClient
from rich.terminal_theme import DIMMED_MONOKAI

from tests.browser.devtools import Page, chromium
from tests.browser.jupyter import ROOT, STATUS, Address, click, enter, jupyterlab, open_and_run, opened
from tests.browser.palette import keep
from tests.lab.conftest import commit
from tests.lab.replaying import fill, now_ms
from tests.redrive.redriving import write_letters
from tests.redrive.six_kinds import letters
from workbench import api
from workbench.collect.capture import read_capture
from workbench.lab.lab import start_lab
from workbench.lab.lab_broker import create_topic
from workbench.report import health_report
from workbench.report.html_report import write_html
from workbench.report.terminal import show
from workbench.spark.session import session
from workbench.terminal_tables import SafeConsole
from workbench.triage.triage_engine import triage

_IMAGES = ROOT / "notebooks" / "images"
_INCIDENT = ROOT / "notebooks" / "captures" / "incident-1"
_NO_SIDEBAR = "window.jupyterapp.commands.execute('application:toggle-left-area').then(() => true)"


def main() -> None:
    """Take all of them."""
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        settings = room / "settings.toml"
        environment = {"WORKBENCH_CAPTURE": "captures/incident-1", "WORKBENCH_CONFIG": str(settings)}
        with chromium(room / "chromium") as page:
            page.call("Emulation.setScrollbarsHidden", hidden=True)
            _files(page, room)
            with start_lab(room / "lab", with_prometheus=False) as lab:
                settings.write_text(f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\n')
                times = {n: [now_ms() - 1000 * (3600 - 45 * i) - 7000 * n for i in range(80)] for n in range(6)}
                create_topic(lab.bootstrap, "orders", len(times))
                fill(lab, "orders", times)
                commit(
                    AdminClient({"bootstrap.servers": lab.bootstrap}), "payments", "orders", dict.fromkeys(times, 70)
                )
                with jupyterlab(room, environment=environment) as address:
                    _panel(page, address)
                    _replay(page, address)
                    _letters(page, address, lab.bootstrap)
                    _game(page, address)
                    for book in ("explore", "health_report"):
                        _opened(page, address(book), 1000, panel=False)
                        keep(page, _IMAGES / f"{book}.png")
    total = sum(path.stat().st_size for path in _IMAGES.glob("*.png"))
    print(f"{total / 1e6:.2f} MB in {_IMAGES}")


def _files(page: Page, room: Path) -> None:
    """Terminal, report and health report."""
    capture = read_capture(_INCIDENT)
    result = triage(capture, session())
    console = SafeConsole(record=True, width=112, force_terminal=True, file=(room / "nowhere").open("w"))
    show(console, result, capture.samples)
    console.save_html(str(room / "terminal.html"), theme=DIMMED_MONOKAI)
    page.resize(1130, 570)
    page.open((room / "terminal.html").as_uri())
    page.run("document.body.style.margin = '12px'")
    keep(page, _IMAGES / "triage.png")
    write_html(room / "triage.html", result, capture)
    page.resize(1000, 1400)
    _drawn(page, room / "triage.html")
    keep(page, _IMAGES / "report.png")
    health_report.publish(api.health(capture=str(_INCIDENT)), str(room))
    page.resize(1000, 900)
    _drawn(page, room / "report.html")
    keep(page, _IMAGES / "health.png")


def _drawn(page: Page, path: Path) -> None:
    page.open(path.as_uri())
    page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")


def _opened(page: Page, address: str, height: int, *, panel: bool = True) -> None:
    page.resize(1150, height)
    (opened if panel else open_and_run)(page, address)
    page.run(_NO_SIDEBAR)


def _panel(page: Page, address: Address) -> None:
    _opened(page, address("lag_triage"), 1300)
    click(page, "wb-find")
    page.wait(f"{STATUS} === 'Done.'")
    page.wait("document.querySelectorAll('.wb-charts .js-plotly-plot .main-svg').length >= 5")
    keep(page, _IMAGES / "panel.png")


def _replay(page: Page, address: Address) -> None:
    since = (datetime.now(UTC) - timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M:00Z")
    _opened(page, address("replay", cluster="prod", group="payments", topic="orders", since=since), 1500)
    page.wait("document.querySelector('.wb-from-group input').value === 'payments'")
    enter(page, "wb-new-group", "payments-2")
    click(page, "wb-plan")
    page.wait("document.querySelector('.wb-picture .js-plotly-plot .main-svg')")
    _from(page, ".wb-panel")
    keep(page, _IMAGES / "replay.png")


def _letters(page: Page, address: Address, bootstrap: str) -> None:
    """A plan of dead letters of six kinds of headers."""
    create_topic(bootstrap, "orders.dlq", 3)
    write_letters(bootstrap, "orders.dlq", letters(600, "orders", 3))
    _opened(page, address("dead_letters", cluster="prod"), 1300)
    page.wait("document.querySelector('.wb-cluster select').value === 'prod'")
    click(page, "wb-list")
    page.wait("document.querySelector('.wb-topic input').value === 'orders.dlq'")
    click(page, "wb-plan")
    page.wait("document.querySelector('.wb-asking p')")
    _from(page, ".wb-panel")
    keep(page, _IMAGES / "dead_letters.png")


def _game(page: Page, address: Address) -> None:
    _opened(page, address("game_day"), 1000)
    click(page, "wb-recorded")
    page.wait(f"{STATUS} === 'Your turn.'")
    page.run(
        "(() => { const it = document.querySelector('.wb-guess select'); it.selectedIndex = 7;"
        " it.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    click(page, "wb-say")
    page.wait("document.querySelector('.wb-tree svg.tree')")
    _from(page, ".wb-panel")
    keep(page, _IMAGES / "game_day.png")


def _from(page: Page, selector: str) -> None:
    """Scroll so that it stands at the top, and wait until charts have found their size."""
    page.run(f"document.querySelector('{selector}').scrollIntoView()")
    page.run("new Promise(done => setTimeout(() => done(true), 1500))")


if __name__ == "__main__":
    main()
