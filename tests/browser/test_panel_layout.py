"""Rules of the layout of each panel, in a real Chromium: every width in both directions, light and dark, by keyboard alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.devtools import Page, chromium
from tests.browser.jupyter import ROOT, STATUS, Address, jupyterlab, opened
from tests.browser.keyboard import press_enter, start_at, tab_to
from tests.browser.layout import WIDTHS, problems
from tests.browser.looking import PICTURES, inert
from tests.replay.fakes import FakeGateway, now_ms, plan_of, request
from workbench.plans.strict_document import write_file

pytestmark = [pytest.mark.jvm, pytest.mark.apt]
INCIDENT = ROOT / "notebooks" / "captures" / "incident-1"
DRAWN = "document.querySelectorAll('.wb-charts .js-plotly-plot .main-svg').length >= 2"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan in it, of two topics with names as long as people have them."""
    room = tmp_path_factory.mktemp("room")
    last = now_ms() - 30_000
    logs = {
        (topic, number): [(offset, last - (9 - offset) * 60_000) for offset in range(10)]
        for topic in ("orders", "payments.settlement.instructions.eu-central-1.v2")
        for number in range(6)
    }
    gateway = FakeGateway(logs, groups={"old": dict.fromkeys(logs, 10)})
    plan = plan_of(gateway, request(topics=list(dict.fromkeys(topic for topic, _ in logs))))
    write_file(room / "plan.json", plan.document())
    return room


@pytest.fixture(scope="module")
def jupyter(room: Path) -> Iterator[Address]:
    """One JupyterLab for all of them."""
    with jupyterlab(room, environment={"WORKBENCH_CAPTURE": str(INCIDENT)}) as address:
        yield address


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser."""
    with chromium(tmp_path / "chromium") as made:
        made.resize(WIDTHS[0], 900)
        yield made


def theme(page: Page, *, dark: bool) -> None:
    """JupyterLab's own theme; the system's says nothing about it."""
    name = "JupyterLab Dark" if dark else "JupyterLab Light"
    page.run(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{name}'}}).then(() => true)")
    page.wait(f"document.body.dataset.jpThemeLight === '{str(not dark).lower()}'")


def keeps_its_layout(page: Page, name: str) -> None:
    """At each width, smaller and larger again, light and dark: no broken word, no small chart, nothing beyond the edge."""
    over = "(() => { const it = document.querySelector('.jp-Notebook'); return it.scrollWidth - it.clientWidth })()"
    for dark in (False, True):
        theme(page, dark=dark)
        for width in WIDTHS:
            page.resize(width, 900)
            time.sleep(1.5)
            page.run("document.querySelector('.wb-panel').scrollIntoView()")
            page.screenshot(PICTURES / f"panel-{name}-{width}{'-dark' if dark else ''}.png")
            assert problems(page, ".wb-panel") == [], (width, dark)
            assert page.run(over) <= 0, (width, dark)
            assert faint(page) == [], (width, dark)
    theme(page, dark=False)


def faint(page: Page) -> list[str]:
    """Texts of the panel with a contrast below 3 : 1 to what is behind them."""
    found = page.run("""(() => {
      const bright = (c) => { const p = c.match(/[\\d.]+/g).map(Number); if (p.length > 3 && p[3] < 0.5) return null;
        const [r, g, b] = p.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b };
      const behind = (el) => { for (; el; el = el.parentElement) { const b = bright(getComputedStyle(el).backgroundColor);
        if (b !== null) return b } return 1 };
      const found = [];
      for (const el of document.querySelectorAll('.wb-panel .wb *')) {
        const words = [...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (el.closest('svg') || !el.getClientRects().length || !words) continue;
        const a = bright(getComputedStyle(el).color), b = behind(el);
        if (a === null) continue;
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 3) found.push(el.textContent.trim().slice(0, 40) + ' ' + ratio.toFixed(1));
      }
      return found.slice(0, 5) })()""")
    return [str(it) for it in found]


def test_the_replay_panel_by_keyboard_at_every_width(page: Page, jupyter: Address, room: Path) -> None:
    """Tab leads from the first input to Apply, which wants a confirmation typed; plan, picture and table fit."""
    opened(page, jupyter("replay"))
    start_at(page, "wb-cluster")
    tab_to(page, "wb-file")
    page.run("document.activeElement.select()")
    page.type(str(room / "plan.json"))
    press_enter(page, "wb-open")
    page.wait("document.querySelector('.wb-picture .js-plotly-plot .main-svg')")
    assert page.run("document.querySelector('button.wb-apply').disabled")
    keeps_its_layout(page, "replay")
    tab_to(page, "wb-typed")
    page.type(page.run("document.querySelector('.wb-hash').firstChild.textContent"))
    page.press("Tab", 9)
    page.wait("!document.querySelector('button.wb-apply').disabled")
    tab_to(page, "wb-apply")
    inert(page)


def test_the_game_day_panel_by_keyboard_at_every_width(page: Page, jupyter: Address) -> None:
    """Before the guess, and with tree and truth after it."""
    opened(page, jupyter("game_day"))
    start_at(page, "wb-recorded")
    for _ in range(10):  # the tree needs one question only for some incidents, and then has no hint
        press_enter(page, "wb-recorded")
        page.wait(f"{STATUS} === 'Your turn.'")
        if not page.run("document.querySelector('button.wb-hint').disabled"):
            break
    page.wait(DRAWN)
    press_enter(page, "wb-hint")
    page.wait("document.querySelectorAll('.wb-alert ol.hints li').length === 1")
    keeps_its_layout(page, "game")
    tab_to(page, "wb-guess")
    page.press("s", 83)
    press_enter(page, "wb-say")
    page.wait("document.querySelector('.wb-tree svg.tree')")
    keeps_its_layout(page, "game-told")
    inert(page)


def test_the_triage_panel_by_keyboard_at_every_width(page: Page, jupyter: Address, tmp_path: Path) -> None:
    """From the first input to the verdict and the saved report, without a mouse."""
    opened(page, jupyter("lag_triage"))
    start_at(page, "wb-source")
    tab_to(page, "wb-capture")
    assert page.run("document.activeElement.value") == str(INCIDENT)
    press_enter(page, "wb-find")
    page.wait(f"{STATUS} === 'Done.'")
    page.wait(DRAWN)
    keeps_its_layout(page, "triage")
    tab_to(page, "wb-path")
    page.run("document.activeElement.select()")
    page.type(str(tmp_path / "saved"))
    press_enter(page, "wb-save-html")
    page.wait(f"{STATUS}.startsWith('Saved as')")
    assert json.dumps(str(tmp_path / "saved.html"))[1:-1] in page.run(STATUS)
    assert (tmp_path / "saved.html").stat().st_size > 100_000
    inert(page)
