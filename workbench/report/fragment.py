"""One finding as a piece of HTML for a page that is not ours: a notebook's. Same template and style as the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from workbench.report.html import Section, environment
from workbench.report.treepicture import tree_svg
from workbench.triage.finding import Finding
from workbench.words import one_line


def fragment(finding: Finding, incomplete: Sequence[str] = ()) -> str:
    """The finding without its charts; every text in it is escaped."""
    section = Section(finding=finding, charts=(), tree=tree_svg(finding), anchor="finding")
    body = environment().get_template("finding.html.j2").render(section=section, it=finding)
    notes = "".join(f'<p class="note">Incomplete: {escape(one_line(text))}</p>' for text in incomplete)
    return f'<div class="wb"><section class="finding">{notes}{body}</section></div>'


def style() -> str:
    """The report's style, for what stands inside of `.wb` only."""
    text = resources.files("workbench.report").joinpath("report.css").read_text()
    return "@scope (.wb) {\n" + text.replace(":root", ":scope").replace("body {", ":scope {") + "\n}"
