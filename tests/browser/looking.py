"""What every page of ours must hold to, and where its pictures go."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from tests.browser.devtools import Page

PICTURES = Path(__file__).parent.parent.parent / "build" / "screens"
SHARE = 'document.querySelector(\'[data-title^="Share"], [data-title*="cloud" i]\')'
# The whole page is on the screen, however narrow it is.
FITS = "document.documentElement.scrollWidth <= window.innerWidth"


def inert(page: Page) -> None:
    """No name became an element or ran, and no request went anywhere but loopback or the file itself."""
    assert page.dialogs == []
    assert page.run("document.querySelectorAll('img[src=\"x\"]').length") == 0
    for url in page.requests:
        parts = urlsplit(url)
        assert parts.scheme in ("file", "data", "blob", "about") or parts.hostname == "127.0.0.1", url


def within(seconds: float, goal: float, what: str) -> None:
    """A time that people feel: the goal holds for a quiet machine, and grows with what else runs on this one."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    allowed = goal * 1.5 * max(1.0, 2 * load)
    print(
        f"{what} in {seconds:.1f} s; the goal is {goal:g} s, at a load of {load:.1f} for each core at most {allowed:.0f} s"
    )
    assert seconds <= allowed, what
