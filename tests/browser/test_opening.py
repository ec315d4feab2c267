"""Rules of opening a notebook with `workbench notebook`: it is ready to use, on a narrow screen too, and runs nobody else's code."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.browser.devtools import Page, chromium
from tests.browser.jupyter import ROOT, Address, jupyterlab, opened
from tests.browser.layout import WIDTHS, problems
from tests.browser.looking import PICTURES

pytestmark = [pytest.mark.apt]

BOOKS = ("lag_triage", "replay", "dead_letters", "game_day")
EDGES = """[...document.querySelectorAll('.wb-form > *')].map((it) => { const box = it.getBoundingClientRect();
  return [it.classList.contains('wb-time'), Math.round(box.top), Math.round(box.left), Math.round(box.right)]; })"""
ROWS = f"new Set({EDGES}.map((it) => it[1])).size"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of JupyterLab."""
    return tmp_path_factory.mktemp("room")


@pytest.fixture(scope="module")
def jupyter(room: Path) -> Iterator[Address]:
    """One JupyterLab for all of them."""
    capture = ROOT / "notebooks" / "captures" / "incident-1"
    with jupyterlab(room, environment={"WORKBENCH_CAPTURE": str(capture)}) as address:
        yield address


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser."""
    with chromium(tmp_path / "chromium") as made:
        yield made


@pytest.mark.parametrize("book", BOOKS)
def test_the_panel_is_there_when_the_notebook_is_open(page: Page, jupyter: Address, book: str) -> None:
    """Nothing has to be run; the source is collapsed, and the page is at its beginning, at every width."""
    page.resize(WIDTHS[0], 900)
    opened(page, jupyter(book))
    assert page.run("document.querySelectorAll('.jp-CodeCell .jp-InputArea-editor').length") == 0
    for width in WIDTHS:
        page.resize(width, 900)
        time.sleep(1.0)
        assert page.run("document.querySelector('h1').getBoundingClientRect().top > 0"), width
        assert problems(page, ".wb-panel") == [], width
        page.screenshot(PICTURES / f"opened-{book}-{width}.png")


def test_the_inputs_of_a_triage_are_tidy_rows(page: Page, jupyter: Address) -> None:
    """Four in a row, two beside the open sidebar of a narrow window, one on a phone; each time has a row of its own."""
    page.resize(1440, 900)
    opened(page, jupyter("lag_triage"))
    for width, each in ((1440, 4), (1200, 2), (390, 1), (1200, 2)):
        page.resize(width, 900)
        page.wait(f"{ROWS} === {4 // each + 2}", seconds=20)
        edges = page.run(EDGES)
        inputs = [it for it in edges if not it[0]]
        assert set(Counter(top for _, top, _, _ in inputs).values()) == {each}, "each row has as many inputs"
        widths = [right - left for _, _, left, right in inputs]
        assert max(widths) - min(widths) <= 1
        beginning, end = min(it[2] for it in inputs), max(it[3] for it in inputs)
        times = [it for it in edges if it[0]]
        assert len(times) == len({top for _, top, _, _ in times}) == 2
        assert all(abs(left - beginning) <= 1 and abs(right - end) <= 1 for _, _, left, right in times), (
            "as wide as the rest"
        )


def test_an_input_that_would_be_alone_in_its_row_has_all_of_it(page: Page, jupyter: Address) -> None:
    """Of nine: the plan's file, whose path may be long."""
    page.resize(1440, 900)
    opened(page, jupyter("dead_letters"))
    for width, rows in ((1440, 5), (1200, 7)):
        page.resize(width, 900)
        page.wait(f"{ROWS} === {rows}", seconds=20)
        edges = page.run(EDGES)
        [alone] = [it[2:] for it in edges if not it[0] and [other[1] for other in edges].count(it[1]) == 1]
        assert alone == [min(it[2] for it in edges), max(it[3] for it in edges)]


def test_on_a_phone_the_notebook_has_the_screen(page: Page, jupyter: Address) -> None:
    """No sidebar beside it, nothing beyond the edge; a wider window gets its sidebar back."""
    page.resize(390, 844)
    opened(page, jupyter("lag_triage"))
    width = "document.querySelector('.wb-panel').getBoundingClientRect().width"
    page.wait(f"{width} > 330 && {width} <= 390", seconds=20)
    assert (
        page.run(
            "(() => { const it = document.querySelector('.jp-Notebook'); return it.scrollWidth - it.clientWidth })()"
        )
        <= 0
    )
    assert page.run("window.jupyterapp.shell.leftCollapsed")
    page.resize(1440, 900)
    page.wait("!window.jupyterapp.shell.leftCollapsed", seconds=20)
    page.wait(f"{width} > 800", seconds=20)
    page.run("window.jupyterapp.shell.collapseLeft()")
    page.resize(390, 844)
    time.sleep(1)
    page.resize(1440, 900)
    time.sleep(1)
    assert page.run("window.jupyterapp.shell.leftCollapsed"), "it was closed before"


def test_a_kernel_that_was_killed_is_told_and_its_panel_works_again(page: Page, jupyter: Address, room: Path) -> None:
    """JupyterLab starts another one; the panel is made anew, its button can be pressed, and nothing is said to go on."""
    page.resize(1440, 900)
    opened(page, jupyter("lag_triage"))
    page.run("document.querySelector('.wb-find').click()")
    page.wait("(document.querySelector('.wb-status') || {}).textContent.includes('…')", seconds=20)
    session = "[...window.jupyterapp.shell.widgets('main')].find(it => it.sessionContext).sessionContext.session"
    own = page.run(f"{session}.kernel.id")
    [process] = [it for it in psutil.process_iter(["cmdline"]) if any(own in word for word in it.info["cmdline"] or ())]
    process.kill()
    page.wait("document.body.innerText.includes('The kernel had ended, and was started again')", seconds=60)
    page.wait("document.querySelector('.wb-find') && !document.querySelector('.wb-find').disabled", seconds=30)
    assert "…" not in page.run("document.querySelector('.wb-status').textContent")
    page.screenshot(PICTURES / "kernel-killed.png")
    page.run("[...document.querySelectorAll('dialog button, .jp-Dialog-button')].forEach((it) => it.click())")
    page.run("document.querySelector('.wb-find').click()")
    page.wait("document.querySelector('.wb-status').textContent === 'Done.'", seconds=120)


def test_somebody_elses_notebook_does_not_run(page: Page, jupyter: Address, room: Path) -> None:
    """It has the tag too, but nobody has trusted it: a file that was sent is no program before a person runs it."""
    address = jupyter("lag_triage")
    name = address.split("/lab/tree/")[1].split("?")[0]
    ran = room / "ran"
    book = nbformat.read(room / "notebooks" / name, as_version=4)
    book.cells[2].source = f"open({str(ran)!r}, 'w').close()"
    nbformat.write(book, room / "notebooks" / name)
    page.resize(1440, 900)
    page.open(address)
    page.wait("document.querySelectorAll('.jp-CodeCell').length === 2")
    page.wait("document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')")
    time.sleep(5)
    assert not ran.exists()
    assert page.run("document.body.innerText.includes('If there are no inputs below this text')")
    shutil.copy(room / "notebooks" / "lag_triage.ipynb", room / "notebooks" / "as-shipped.ipynb")
    opened(page, address.replace(name, "as-shipped.ipynb"))
