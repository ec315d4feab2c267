"""Contrast of texts and lines, measured: 4.5 : 1 to what is behind them, by day and by night (WCAG 2.2, 1.4.3)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.report import charts
from workbench.widgets import controls

REPORT = Path(charts.__file__).parent
STYLE = (REPORT / "report.css").read_text(encoding="utf-8")
SCRIPT = (REPORT / "report.js").read_text(encoding="utf-8")
SERVE = (REPORT.parent / "serve" / "serve.css").read_text(encoding="utf-8")
TEXTS = ("ink", "soft", "bad", "warn", "good", "unsure")
ENOUGH = 4.5
JUPYTER_DARK = "#111111"


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, 0 to 1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    """Their ratio, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """Colours by name: by day and by night, as the style has them."""
    found = [
        dict(re.findall(r"--(\w+): (#[0-9a-fA-F]{6})", block)) for block in re.findall(r":root \{([^}]*)\}", STYLE)[:2]
    ]
    return {"day": found[0], "night": found[1]}


NIGHT = dict(re.findall(r'"(#[0-9A-F]{6})": "(#[0-9A-Fa-f]{6})"', SCRIPT))


def test_the_measure_is_that_of_the_standard() -> None:
    """Black on white is 21, and a colour on itself 1."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#123456", "#123456") == 1


@pytest.mark.parametrize("theme", ["day", "night"])
def test_texts_of_reports_and_pages(theme: str) -> None:
    """On paper and on panels; the charts' own line too."""
    colours = themes()[theme]
    weak = {
        (name, ground): round(contrast(colours[name], colours[ground]), 2)
        for name in (*TEXTS, "lit")
        for ground in ("paper", "panel")
        if contrast(colours[name], colours[ground]) < ENOUGH
    }
    assert weak == {}


def test_lines_of_charts() -> None:
    """Every colour of a line, of a baseline and of an onset, by day; and what stands for it at night."""
    source = (REPORT / "charts.py").read_text(encoding="utf-8")
    drawn = {*charts.COLOURS, *re.findall(r'"color": "(#[0-9A-F]{6})"', source)}
    day, night = themes()["day"]["paper"], themes()["night"]["paper"]
    assert {it: round(contrast(it, day), 2) for it in drawn if contrast(it, day) < ENOUGH} == {}
    assert drawn <= NIGHT.keys()
    assert {it: round(contrast(NIGHT[it], night), 2) for it in drawn if contrast(NIGHT[it], night) < ENOUGH} == {}
    assert len({*charts.COLOURS}) == len({NIGHT[it] for it in charts.COLOURS}) == len(charts.COLOURS)


def test_lines_in_a_notebook_do_for_both_of_its_themes() -> None:
    """It does not say which it has: 4.5 on white, and 4 on the dark one, which is the most that both allow."""
    source = (REPORT / "charts.py").read_text(encoding="utf-8")
    for it in (*charts.COLOURS, *re.findall(r'"color": "(#[0-9A-F]{6})"', source), controls._INK):
        assert contrast(it, "#ffffff") >= ENOUGH, it
        assert contrast(it, JUPYTER_DARK) >= 4.0, it


def test_links_of_the_pages() -> None:
    """By day and by night."""
    day, night = themes()["day"]["paper"], themes()["night"]["paper"]
    found = dict(re.findall(r"prefers-color-scheme: (light|dark)\) \{ a \{ color: (#[0-9a-fA-F]{6})", STYLE + SERVE))
    for scheme, colour in found.items():
        assert contrast(colour, day if scheme == "light" else night) >= ENOUGH, scheme
