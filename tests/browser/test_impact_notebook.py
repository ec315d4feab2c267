"""Rules of the notebook `impact`, in a real JupyterLab and a real Chromium."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.browser.devtools import chromium
from tests.browser.jupyter import jupyterlab, open_and_run
from tests.browser.layout import WIDTHS, problems
from tests.browser.looking import PICTURES, inert

pytestmark = [pytest.mark.jvm, pytest.mark.apt]
HEIGHTS = "[...document.querySelectorAll('.jp-RenderedPlotly')].map(it => it.clientHeight)"


def test_it_opens_its_recording_and_keeps_its_layout_at_every_width(tmp_path: Path) -> None:
    """Three charts keep their height when the window is made smaller and larger; no word is broken, nothing leaves the page."""
    settings = tmp_path / "settings.toml"
    settings.write_text("")
    with (
        jupyterlab(tmp_path, environment={"WORKBENCH_CONFIG": str(settings)}) as address,
        chromium(tmp_path / "chromium") as page,
    ):
        page.resize(1440, 3000)  # all of it is on the screen
        open_and_run(page, address("impact"))
        page.wait("document.querySelectorAll('.jp-RenderedPlotly .main-svg').length >= 9", seconds=90)
        for width in WIDTHS:
            page.resize(width, 3000)
            time.sleep(2)
            page.screenshot(PICTURES / f"impact-{width}.png")
            assert problems(page, ".jp-OutputArea") == [], width
            heights = page.run(HEIGHTS)
            assert len(heights) == 3 and min(heights) >= 200, (width, heights)
        shown = page.run("document.querySelector('.jp-Notebook').innerText")
        assert 'Group "backfill" reads' in shown and "consumer_byte_rate" in shown and "The way back" in shown
        inert(page)
