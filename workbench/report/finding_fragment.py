"""One finding as an HTML fragment for a notebook, with the report's template and style."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from urllib.parse import quote

from workbench.collect.capture import Capture
from workbench.humanize import one_line
from workbench.queues.group_kinds import Unjudged
from workbench.report.html_report import Section, environment
from workbench.report.notebook_cells_for_spark import Cell
from workbench.report.partition_holders import consumers
from workbench.triage.finding import Finding


def fragment(finding: Finding, incomplete: Sequence[str] = (), *, capture: Capture | None = None) -> str:
    """Render the finding without its charts; `capture` tells who has its partitions. All text is escaped."""
    return verdict(finding, incomplete) + reasons(finding, capture=capture)


def verdict(finding: Finding, incomplete: Sequence[str] = ()) -> str:
    """What was found, with its numbers: charts come after it. All text is escaped."""
    notes = "".join(f'<p class="note">Incomplete: {escape(one_line(text))}</p>' for text in incomplete)
    body = notes + _part("finding_head.html.j2", Section(finding=finding, anchor="finding"))
    return f'<div class="wb"><section class="finding">{body}</section></div>'


def reasons(finding: Finding, *, capture: Capture | None = None) -> str:
    """What to do, and how it was found. All text is escaped."""
    known = consumers(finding, capture) if capture is not None else {}
    body = _part("finding_body.html.j2", Section(finding=finding, anchor="finding", consumers=known))
    return f'<div class="wb"><section class="finding more">{body}</section></div>'


def _part(template: str, section: Section) -> str:
    return environment().get_template(template).render(section=section, it=section.finding)


def not_judged(groups: Sequence[Unjudged]) -> str:
    """Groups that cannot be judged, a line each; all text is escaped."""
    lines = "".join(f"<li>{escape(one_line(it.group))}: {escape(one_line(it.headline))}</li>" for it in groups)
    return f'<div class="wb"><section class="finding"><ul>{lines}</ul></section></div>' if lines else ""


def spark_fragment(cells: Sequence[Cell], name: str) -> str:
    """Cells for Spark with the name of the notebook that has them; all text is escaped."""
    link = f'<a href="{quote(name)}" target="_blank" rel="noopener"><code>{escape(name)}</code></a>'
    body = environment().get_template("cells.html.j2").render(cells=cells)
    head = f'<p class="note" role="status">A notebook with these cells is beside this one: {link}.</p>'
    return f'<div class="wb"><section class="finding">{head}{body}</section></div>'


# What JupyterLab does to lists and tables in its outputs is taken back.
_AGAINST_JUPYTER = """
:scope dl.numbers dt, :scope dl.numbers dd { float: none; width: auto; display: block; padding: 0; margin: 0; }
:scope dl.numbers dt { font-weight: 400; }
:scope table { border-collapse: collapse; width: 100%; font-size: .88rem; border: none; table-layout: auto; }
:scope:is(.wb) :is(th, td) { text-align: left; white-space: normal; max-width: none; vertical-align: top; word-break: normal;
  overflow-wrap: break-word; }
:scope tr, :scope tbody tr:nth-child(even), :scope tbody tr:hover { background: none; }
:scope:is(.wb) :is(th, td).n { text-align: right; white-space: nowrap; }
"""


# JupyterLab has a theme of its own, which need not be the system's.
_BY_THEME = """
.wb-panel { min-width: 23rem; container: wb-panel / inline-size; }  /* beside an open sidebar: scrolled, not broken letter by letter */
.wb-panel .wb { padding-top: .2rem; padding-bottom: .2rem; }
.wb-panel button.copy { display: inline-block; }
.jp-RenderedHTMLCommon > .wb { margin: 0; padding: .2rem 0; }
.wb-panel .wb-form { display: grid; gap: 4px 8px; overflow: visible; grid-template-columns: repeat(4, minmax(0, 1fr)); }
@container wb-panel (max-width: 62rem) { .wb-panel .wb-form { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@container wb-panel (max-width: 31rem) { .wb-panel .wb-form { grid-template-columns: 100%%; } }
.wb-panel .wb-form > .jupyter-widgets { width: auto; min-width: 0; margin: 0; }
.wb-panel .wb-form > :nth-child(odd):nth-last-child(3) { grid-column: 1 / -1; }  /* the last one before two times, alone in its row */
.wb-panel .wb-form > .wb-time { grid-column: 1 / -1; display: flex; flex-flow: row wrap; gap: 0 8px; overflow: visible; }
.wb-time > .jupyter-widgets { margin: 0; }
.wb-time > .widget-text, .wb-time > .widget-combobox { flex: 1 1 19rem; min-width: min(100%%, 19rem); }
.wb-time > .widget-datetimepicker { flex: none; width: auto; max-width: 100%%; }
.wb-time > .widget-html { flex: 2 1 20rem; }
.wb-time .wb p { margin: 0; padding-left: 8px; font-size: .82rem; line-height: 1.35; } .wb-time .wb .wrong { color: var(--bad); }
.jp-RenderedPlotly, .wb-panel .js-plotly-plot { min-height: 260px; }
@media (max-width: 600px) { .wb-panel .jp-RenderedPlotly, .wb-panel .js-plotly-plot { min-height: 420px; } }
.wb-panel .widget-html { max-width: calc(100%% - 4px); min-width: 0; }
.wb-panel .widget-html-content { min-width: 0; max-width: 100%%; overflow-x: auto; }
body[data-jp-theme-light="true"] .wb { color-scheme: light; %s }
body[data-jp-theme-light="false"] .wb { color-scheme: dark; %s }
"""


def style() -> str:
    """The report's style, for what stands inside of `.wb` only; light or dark as JupyterLab is, elsewhere as the system is."""
    text = resources.files("workbench.report").joinpath("report.css").read_text(encoding="utf-8")
    own = text.replace(":root", ":scope").replace("body {", ":scope {")
    light, dark = (block[block.index("--ink") :] for block in re.findall(r":root \{([^}]*)\}", text)[:2])
    return "@scope (.wb) {\n" + own + _AGAINST_JUPYTER + "}" + _BY_THEME % (light, dark)
