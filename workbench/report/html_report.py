"""Report: one HTML file that works offline, makes no requests, and runs only its own two scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workbench import __version__
from workbench.collect.capture import Capture
from workbench.errors import UsageError
from workbench.files import atomic_write
from workbench.humanize import (
    count,
    counted,
    duration,
    one_line,
    plural,
    printable,
    quantity,
    rate,
    shell_word,
    unit_words,
)
from workbench.report.chart_as_table import summary_table
from workbench.report.charts import PLOTLY_CONFIG, Chart, charts_of
from workbench.report.notebook_cells_for_spark import explore_command, spark_cells
from workbench.report.partition_holders import consumers, worst_first
from workbench.report.small_multiples import multiples_svg
from workbench.report.terminal import how_to_set, to_runbook
from workbench.report.tree_picture import tree_svg
from workbench.triage.changes import words_of
from workbench.triage.finding import Finding, PartitionLag, missing_words
from workbench.triage.question_order import TREE
from workbench.triage.triage_engine import Triage
from workbench.triage.verdict_names import State
from workbench.window import Window

_PLOTLY = "plotly-basic-4.1.1.min.js"
_MAX_DETAILED = 20  # a report of hundreds of sick groups stays readable; the others stand in the table
LARGEST_BYTES = 1_500_000  # a page that goes through mail and chats; fewer findings have charts if it would be larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One finding with its pictures.

    Attributes:
        consumers: partition to who has it, as far as it is known.
        body: the whole section, if it is rendered already.
    """

    finding: Finding
    anchor: str
    charts: Sequence[Chart] = ()
    multiples: Markup = field(default_factory=Markup)
    consumers: Mapping[int, str] = field(default_factory=dict)
    body: Markup = field(default_factory=Markup)

    @property
    def tree(self) -> Markup:
        """All questions, with the way that was taken."""
        return tree_svg(self.finding)

    @property
    def not_asked(self) -> int:
        """Questions of the tree that the way did not lead to."""
        return len(TREE.keys() - {step.node for step in self.finding.path})

    @property
    def partitions(self) -> Sequence[PartitionLag]:
        """The worst first."""
        return worst_first(self.finding)


def write_html(path: Path, result: Triage, capture: Capture, *, new: bool = False) -> None:
    """Write the report of a triage atomically.

    Args:
        path: the file.
        result: what was found.
        capture: what it was found in, for the charts.
        new: another file that is there stays.

    Raises:
        UsageError: if it cannot be written there.
    """
    write_page(path, render_html(result, capture), new=new)


def render_html(result: Triage, capture: Capture, *, health: object | None = None) -> str:
    """The report as text; with `health`, the fleet's overview stands before the findings."""
    sick = [finding for finding in result.findings if finding.state is not State.HEALTHY]
    wanted = (sick or ([] if health is not None else list(result.findings[:1])))[:_MAX_DETAILED]
    packed, sections = Packed(), list[Section]()
    page = _page(result, capture, sections, packed, health=health)
    for number, finding in enumerate(wanted):
        sections.append(_section(finding, f"finding-{number}", result, capture))
        packed = packed.with_charts(sections[-1].anchor, sections[-1].charts)
        longer = _page(result, capture, sections, packed, health=health)
        if number and len(longer.encode()) > LARGEST_BYTES:
            break
        page = longer
    return page


def section_of(
    finding: Finding, anchor: str, capture: Capture, window: Window, *, charts: Sequence[Chart] = ()
) -> Section:
    """A finding with its pictures and text, and with these charts."""
    section = Section(
        finding=finding,
        anchor=anchor,
        charts=charts,
        multiples=multiples_svg(finding, capture.samples, window),
        consumers=consumers(finding, capture),
    )
    body = environment().get_template("finding.html.j2").render(section=section, it=finding)
    return replace(section, body=Markup(body))  # noqa: S704 - rendered with everything escaped


def _section(finding: Finding, anchor: str, result: Triage, capture: Capture) -> Section:
    limits = capture.info.limits(finding.group)
    charts = charts_of(finding, capture.samples, result.window, limits, events=capture.events)
    return section_of(finding, anchor, capture, result.window, charts=charts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Figures for the page, by id: lines with the same times share them, which halves the data.

    Attributes:
        figures: in JSON; `x` of a line is a number, the place of its times.
        times: in JSON, each once.
    """

    figures: Mapping[str, Markup] = field(default_factory=dict)
    times: Mapping[Markup, int] = field(default_factory=dict)

    def with_charts(self, anchor: str, charts: Sequence[Chart]) -> Packed:
        """The figures of one more section."""
        figures, times = dict(self.figures), dict(self.times)
        for chart in charts:
            data = [
                {**line, "x": times.setdefault(_json_block(line["x"]), len(times))} for line in chart.figure["data"]
            ]
            figures[f"{anchor}-{chart.id}"] = _json_block({**chart.figure, "data": data})
        return Packed(figures=figures, times=times)

    @property
    def text(self) -> tuple[Markup, Markup]:
        """Figures and times for two script elements that are data."""
        figures = Markup(", ").join(Markup("{}: {}").format(_json_block(name), it) for name, it in self.figures.items())
        return Markup("{{{}}}").format(figures), Markup("[{}]").format(Markup(", ").join(self.times))


def _page(
    result: Triage, capture: Capture, sections: Sequence[Section], packed: Packed, *, health: object | None
) -> str:
    detailed = [section.finding for section in sections]
    others = [finding for finding in result.findings if finding not in detailed]
    return environment().get_template("report.html.j2").render(
        result=result,
        capture=capture,
        sections=sections,
        health=health,
        detailed=detailed,
        others=others,
        without_charts=sum(finding.state is not State.HEALTHY for finding in others),
        nodes=TREE,
        version=__version__,
        title=_page_title(detailed, capture, health=health is not None),
        notebook=_notebook_command(detailed, capture),
        cells=spark_cells(detailed[0], capture, result.window) if detailed else (),
        explore=explore_command(detailed[0], capture, result.window) if detailed else None,
        **parts_of_page(packed),
    )  # fmt: skip


def parts_of_page(packed: Packed) -> dict[str, Markup | str]:
    """What every page with charts has: style, scripts, their data, and a policy that allows these scripts alone."""
    plotly = _plotly_js() if packed.figures else ""
    start = resources.files(__package__).joinpath("report.js").read_text(encoding="utf-8")
    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    charts, times = packed.text
    return {
        "style": Markup(style),  # noqa: S704 - our own file
        "plotly": Markup(plotly),  # noqa: S704 - the plotly package's own file
        "start": Markup(start),  # noqa: S704 - our own file
        "charts": charts,
        "times": times,
        "config": _json_block(PLOTLY_CONFIG),
        "csp": _policy([plotly, start], style),
    }


def write_page(path: Path, text: str, *, new: bool = False) -> None:
    """Write a page atomically.

    Args:
        path: the file.
        text: the page.
        new: another file that is there stays.

    Raises:
        UsageError: if it cannot be written there.
    """
    try:
        with atomic_write(path, new=new) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    except FileExistsError:
        raise UsageError(f"{path} already exists, and is not overwritten.", hint="Name another file.") from None
    except OSError as error:
        raise UsageError(f"The report {path} cannot be written: {error.strerror}.") from None


def _page_title(detailed: Sequence[Finding], capture: Capture, *, health: bool) -> str:
    """What a tab or a bookmark is called: the incident, not the program."""
    cluster = printable(capture.info.cluster)
    if health or not detailed:
        return f"Consumer {'health' if health else 'lag'} of {cluster}"
    first = detailed[0]
    more = f" and {len(detailed) - 1} more" if len(detailed) > 1 else ""
    verdict = str(first.verdict).replace("_", " ")
    return f"{printable(first.group)} ← {printable(first.topic)}: {verdict}{more} · {cluster}"


def _notebook_command(detailed: Sequence[Finding], capture: Capture) -> str:
    """Command that opens the triage notebook on the same incident."""
    group = f" --group {shell_word(detailed[0].group)}" if len(detailed) == 1 else ""
    window = capture.window
    times = f" --since {window.start:%Y-%m-%dT%H:%M:%SZ} --until {window.end:%Y-%m-%dT%H:%M:%SZ}"
    if capture.folder is not None:
        return f"workbench notebook --capture {shell_word(str(capture.folder))}{group}{times}"
    return f"workbench notebook --cluster {shell_word(capture.info.cluster)}{group}{times}"


def _policy(scripts: Sequence[str], style: str) -> str:
    """Content-Security-Policy that allows only our scripts, by hash, and no requests.

    Plotly sets style attributes through the DOM and adds rules to a sheet of its own, hence `unsafe-inline` for styles.
    """
    allowed = " ".join(_hash(script) for script in scripts if script)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    ) if style else "default-src 'none'"  # fmt: skip


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _plotly_js() -> str:
    # The vendored part of plotly.js that draws lines and marks: a quarter of the whole, which the plotly package brings.
    # The last thing that could end the script element early; inside of a string or regular expression `<\/` means the same.
    return (resources.files(__package__) / _PLOTLY).read_text(encoding="utf-8").replace("</script", "<\\/script")


def _json_block(value: Any) -> Markup:
    """JSON for a script element that is data: no `<`, so that nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(text)  # noqa: S704 - nothing in it can be markup any more


def environment(package: str = "workbench.report") -> Environment:
    """The templates of a package, with the words and numbers that they use."""
    environment = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "duration": duration,
        "count": count,
        "counted": counted,
        "plural": plural,
        "shell": shell_word,
        "rate": rate,
        "name": printable,
        "line": one_line,
        "words": lambda text: str(text).replace("_", " "),
        "quantity": quantity,
        "unit_words": unit_words,
        "changed": words_of,
        "missing_words": missing_words,
    }
    environment.filters |= filters
    environment.globals |= {
        "summary_table": summary_table,
        "how_to_set": how_to_set,
        "addresses": _addresses,
    }
    return environment


def _addresses(finding: Finding) -> list[tuple[str, str]]:
    """Names and addresses to go to from a finding, the team's own runbook first."""
    runbooks = (
        ("Runbook of the group", finding.own_runbook),
        ("Runbook", to_runbook(finding.runbook) if finding.runbook else None),
    )
    return [(name, address) for name, address in runbooks if address] + list(finding.links.items())
