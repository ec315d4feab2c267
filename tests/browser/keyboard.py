"""What a person without a mouse does: Tab, letters, Enter."""

from __future__ import annotations

from tests.browser.devtools import Page

_AT_MOST = 60  # presses of Tab from any part of a panel to any other


def tab_to(page: Page, hook: str) -> None:
    """Press Tab until the part with this class has the focus, and the focus can be seen."""
    inside = f"document.activeElement.closest('.{hook}') !== null"
    for _ in range(_AT_MOST):
        if page.run(inside):
            break
        page.press("Tab", 9)
    assert page.run(inside), f"Tab does not lead to {hook}"
    page.wait("document.activeElement.getBoundingClientRect().bottom <= innerHeight", seconds=10)
    box = "(() => { const it = document.activeElement.getBoundingClientRect(); return [it.top, it.bottom, innerHeight] })()"
    top, bottom, height = page.run(box)
    assert top >= 0 and bottom <= height, f"{hook} has the focus beyond the screen"


def press_enter(page: Page, hook: str) -> None:
    """Go to a button by Tab, and press it."""
    page.wait(f"document.querySelector('button.{hook}') && !document.querySelector('button.{hook}').disabled")
    tab_to(page, hook)
    page.press("Enter", 13)


def start_at(page: Page, hook: str) -> None:
    """The focus is on the panel's first part; how JupyterLab leads there is its own matter."""
    page.wait(f"document.querySelector('.{hook}')")
    page.run(f"(document.querySelector('.{hook} input, .{hook} select') || document.querySelector('.{hook}')).focus()")
    page.wait("document.querySelector('.wb-panel').hasAttribute('data-lm-suppress-shortcuts')")
