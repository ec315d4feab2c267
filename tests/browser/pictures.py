"""The README's pictures of panel and health report, taken anew: `python -m tests.browser.pictures`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser.devtools import chromium
from tests.browser.test_pages import FIND_PANEL, READY, ROOT, RUN_ALL, STATUS, jupyterlab
from workbench.report import health

_IMAGES = ROOT / "notebooks" / "images"
_CAPTURE = Path("captures/incident-1")  # as a user sees it from the notebooks folder


def main() -> None:
    """Take both."""
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        with chromium(room / "chromium") as page, jupyterlab(room, _CAPTURE) as address:
            page.resize(1280, 1500)
            page.open(address)
            page.wait(f"window.jupyterapp && {FIND_PANEL}")
            page.run(READY)
            page.run(RUN_ALL)
            page.wait("document.querySelector('button.wb-find')")
            page.run("document.querySelector('button.wb-find').click()")
            page.wait(f"{STATUS} === 'Done.'")
            page.wait("document.querySelectorAll('.wb-charts .js-plotly-plot .main-svg').length >= 5")
            page.screenshot(_IMAGES / "panel.png")
            health.publish(health.look(capture=str(ROOT / "notebooks" / _CAPTURE)), str(room))
            page.resize(1280, 1000)
            page.open((room / "report.html").as_uri())
            page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
            page.screenshot(_IMAGES / "health.png")


if __name__ == "__main__":
    main()
