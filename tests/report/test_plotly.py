"""Rules of the vendored part of plotly.js."""

from __future__ import annotations

import re
from importlib import resources

from workbench.report.html_report import _PLOTLY

HEADER = re.compile(r"plotly\.js (?:\(basic - minified\) )?v([\d.]+)")


def test_it_is_of_the_version_that_notebooks_draw_with() -> None:
    """A figure looks the same in a report and in a notebook; after an update of plotly, update this file, too."""
    ours = resources.files("workbench.report").joinpath(_PLOTLY).read_text(encoding="utf-8")[:300]
    theirs = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")[:300]
    versions = [found[1] for found in map(HEADER.search, (ours, theirs)) if found]
    assert len(versions) == 2
    assert versions[0] == versions[1]
    assert versions[0] in _PLOTLY


def test_its_licence_is_shipped_beside_it() -> None:
    """MIT asks for that."""
    text = resources.files("workbench.report").joinpath("plotly-LICENSE.txt").read_text(encoding="utf-8")
    assert "MIT" in text
    assert "Plotly" in text
