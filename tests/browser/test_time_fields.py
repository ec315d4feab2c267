"""Rules of a panel's times, in a real JupyterLab and a real Chromium: kernel and screen are in different zones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.devtools import Page, chromium
from tests.browser.jupyter import Address, enter, jupyterlab, opened, text_of
from tests.browser.looking import PICTURES, inert

pytestmark = [pytest.mark.jvm, pytest.mark.apt]

PICK = """(() => { const it = document.querySelector('.wb-since-picker input'); it.focus(); it.value = TIME;
it.dispatchEvent(new Event('change', {bubbles: true})); it.blur(); })()"""
# What of a line stands beyond its box, and of which texts a part is cut off, in the panel's times.
CUT = """(() => { const canvas = document.createElement('canvas').getContext('2d'); const found = [];
for (const it of document.querySelectorAll('.wb-time input')) {
  const look = getComputedStyle(it); canvas.font = look.font;
  const words = it.value || it.placeholder, room = it.clientWidth - parseFloat(look.paddingLeft) - parseFloat(look.paddingRight);
  if (it.type === 'text' && canvas.measureText(words).width > room) found.push(words);
}
const panel = document.querySelector('.wb-panel').getBoundingClientRect();
for (const it of document.querySelectorAll('.wb-time, .wb-time *')) {
  const box = it.getBoundingClientRect();
  if (box.width && (box.right > panel.right + 1 || box.left < panel.left - 1)) found.push(it.className);
}
return found; })()"""


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A JupyterLab whose kernels are in India."""
    room = tmp_path_factory.mktemp("room")
    (room / "settings.toml").write_text('[clusters.prod]\nbootstrap = "127.0.0.1:1"\n')
    with jupyterlab(room, environment={"WORKBENCH_CONFIG": str(room / "settings.toml"), "TZ": "Asia/Kolkata"}) as found:
        yield found


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser in New York."""
    with chromium(tmp_path / "chromium") as made:
        made.call("Emulation.setTimezoneOverride", timezoneId="America/New_York")
        made.resize(1440, 900)
        yield made


@pytest.mark.parametrize("name", ["replay", "lag_triage", "dead_letters"])
def test_a_picked_time_is_the_screens_and_a_typed_one_is_told_at_once(page: Page, jupyter: Address, name: str) -> None:
    """Picked in New York, by a kernel in India: the text has New York's offset, and both zones stand beside it, uncut at any width."""
    opened(page, jupyter(name))
    page.wait("!document.querySelector('.wb-since-picker input').disabled")
    for width in (1440, 800, 390):
        page.resize(width, 900)
        assert page.run(CUT) == [], width
        page.screenshot(PICTURES / f"times-{name}-empty-{width}.png")
    page.run(PICK.replace("TIME", json.dumps("2026-11-21T03:00")))
    page.wait("document.querySelector('.wb-since-text input').value === '2026-11-21T03:00:00-05:00'")
    page.wait("document.querySelector('.wb-since-told').innerText.includes('2026-11-21 08:00:00 UTC')")
    assert "2026-11-21 03:00:00-05:00 America/New_York" in text_of(page, "wb-since-told")

    page.run("document.querySelector('.wb-until-text input').focus()")
    page.type("2026-11-21 04:00")  # no Enter, and the focus stays
    page.wait("document.querySelector('.wb-until-told').innerText.includes('2026-11-21 09:00:00 UTC')")
    assert page.run("document.querySelector('.wb-until-picker input').value") in (
        "2026-11-21T04:00",
        "2026-11-21T04:00:00",
        "2026-11-21T04:00:00.000",
    )
    page.type("x")
    page.wait("document.querySelector('.wb-until-told [role=alert]')")
    assert "is not a timestamp" in text_of(page, "wb-until-told")
    for width in (1440, 800, 390):
        page.resize(width, 900)
        page.run("document.querySelector('.wb-panel').scrollIntoView()")
        assert page.run(CUT) == [], width
        page.screenshot(PICTURES / f"times-{name}-{width}.png")
    enter(page, "wb-since-text", "1 hour ago")
    page.wait("document.querySelector('.wb-since-told').innerText.includes('America/New_York')")
    assert page.run("document.querySelector('.wb-since-text input').value") == "1 hour ago"
    inert(page)
