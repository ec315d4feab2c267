"""Triage panel: inputs, one button, and the finding with its evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ipywidgets as w

from workbench.collect.capture import Capture, write_capture
from workbench.errors import UsageError, WorkbenchError
from workbench.humanize import printable
from workbench.report.chart_before_triage import first_look
from workbench.report.charts import charts_of
from workbench.report.finding_fragment import reasons, spark_fragment, verdict
from workbench.report.html_report import write_html
from workbench.report.notebook_cells_for_spark import spark_cells, write_notebook
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import Triage
from workbench.widgets.controls import STARTS, WRAPPED, Panel, clusters, form, hooked, outputs, shown, text, usual_start
from workbench.widgets.panel_work import PanelWork
from workbench.widgets.prefill import Inputs, prefill
from workbench.widgets.time_input import TimeField
from workbench.widgets.triage_actions import STEPS, Looked, look
from workbench.window import Window

_A_CAPTURE = "(a capture)"


class TriagePanel(Panel):
    """Panel for a triage; `result` and `capture` have the findings and the measurements.

    Nothing is requested before the button is pressed. Text from a broker (group, topic and so on) is shown as text only.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.capture: Capture | None = None
        self.result: Triage | None = None
        self.window: Window | None = None
        super().__init__()
        self._make_inputs(inputs)
        self._make_outputs()
        self.lay_out(
            form(self.source, self.folder, self.group, self.topic, self.since, self.until),
            w.HBox([self.find, self.cancel, self.bar, self.status], layout=WRAPPED),
            self.saving,  # at the top: what was found can be long
            self.trouble,
            self.spark,
            self.first,
            self.choice,
            self.verdict,
            self.leading,
            self.answer,
            self.charts,
        )

    def _make_inputs(self, inputs: Inputs) -> None:
        self._begun_with = inputs
        self.source = hooked(w.Dropdown(options=_sources(inputs), description="Cluster"), "wb-source")
        self.source.value = inputs.cluster or _A_CAPTURE
        self.folder = text(inputs.capture, "Capture", "folder of a capture", "wb-capture")
        self.group = text(inputs.group, "Group", "all", "wb-group", options=())
        self.topic = text(inputs.topic, "Topic", "all", "wb-topic", options=())
        self.since = TimeField(inputs.since, "Since", "", "wb-since", address=self.address, options=STARTS)
        self.until = TimeField(inputs.until, "Until", "now", "wb-until", address=self.address, after=self.since)
        self.source.observe(lambda _change: self._hint_at_window(), names="value")
        self._hint_at_window()
        self.find = self.starter("Find the cause", "wb-find", self.start, button_style="primary", icon="search")

    def _make_outputs(self) -> None:
        self.first = hooked(w.Output(), "wb-first")
        self.choice = hooked(w.Select(options=[], rows=4, description="Findings", layout={"width": "98%"}), "wb-choice")
        shown(self.choice, False)
        self.choice.observe(lambda change: self._show(change["new"]), names="value")
        self.verdict = hooked(w.HTML(""), "wb-verdict")
        self.leading = hooked(w.Output(), "wb-charts")  # the chart that tells most; what to do comes before the others
        self.answer = hooked(w.HTML(""), "wb-answer")
        self.charts = hooked(w.Output(), "wb-charts")
        self.path = hooked(w.Text(value="incident", description="Save as", placeholder="name"), "wb-path")
        self.save_html = hooked(w.Button(description="Save report"), "wb-save-html")
        self.save_capture = hooked(w.Button(description="Save capture"), "wb-save-capture")
        self.save_html.on_click(lambda _button: self._save(self._write_html))
        self.save_capture.on_click(lambda _button: self._save(self._write_capture))
        self.open_spark = hooked(w.Button(description="Open in Spark"), "wb-open-spark")
        self.open_spark.on_click(lambda _button: self._open_in_spark())
        self.spark = hooked(w.HTML(""), "wb-spark")
        buttons = [self.path, self.save_html, self.save_capture, self.open_spark]
        self.saving = w.HBox(buttons, layout={"display": "none", **WRAPPED})

    def _hint_at_window(self) -> None:
        """Show the window of the chosen source where none is typed."""
        name = self.source.value
        self.since.placeholder = "as it was recorded" if name == _A_CAPTURE else usual_start(name)

    @property
    def inputs(self) -> Inputs:
        """Current values of the inputs."""
        capture = self.source.value == _A_CAPTURE
        return Inputs(
            cluster="" if capture else self.source.value,
            capture=self.folder.value.strip() if capture else "",
            group=self.group.value,
            topic=self.topic.value,
            since=self.since.asked,
            until=self.until.asked,
        )

    def fill_in(self, inputs: Inputs) -> None:
        """Fill the inputs that are still unchanged."""
        before, self._begun_with = self._begun_with, inputs
        if self.inputs.cluster == before.cluster and self.folder.value == before.capture:
            self.source.options = _sources(inputs)
            self.source.value, self.folder.value = inputs.cluster or _A_CAPTURE, inputs.capture
        for name in ("group", "topic", "since", "until"):
            field = getattr(self, name)
            if field.value == getattr(before, name):
                field.value = getattr(inputs, name)

    def start(self) -> None:
        """Start a triage; earlier results are cleared."""
        self.verdict.value = self.answer.value = self.spark.value = ""
        self.first.outputs = self.leading.outputs = self.charts.outputs = ()
        shown(self.choice, False)
        shown(self.saving, False)
        asked = self.inputs

        def run(work: PanelWork) -> None:
            looked = look(asked, work, first=self._paint_first)
            work.show(lambda: self._found(looked))

        self.begin(run, steps=STEPS)

    def _paint_first(self, capture: Capture, window: Window) -> None:
        chart = first_look(capture, window, group=self.group.value, topic=self.topic.value)
        if chart is not None:
            self.first.outputs = outputs([chart])

    def _found(self, looked: Looked) -> None:
        self.capture, self.result, self.window = looked.capture, looked.result, looked.result.window
        found = looked.result.findings
        self.group.options, self.topic.options = sorted({it.group for it in found}), sorted({it.topic for it in found})
        self.choice.options = [(_line(it), number) for number, it in enumerate(found)]
        shown(self.choice, len(found) > 1)
        self.choice.value = 0
        self._show(0)
        self.first.outputs = ()  # the finding's charts replace it
        shown(self.saving, True)

    def _show(self, number: int | None) -> None:
        if self.result is None or self.capture is None or number is None:
            return
        finding = self.result.findings[number]
        self.spark.value = ""
        self.verdict.value = verdict(finding, self.result.incomplete)
        self.answer.value = reasons(finding, capture=self.capture)
        limits = self.capture.info.limits(finding.group)
        drawn = charts_of(finding, self.capture.samples, self.result.window, limits, events=self.capture.events)
        self.leading.outputs, self.charts.outputs = outputs(drawn[:1]), outputs(drawn[1:])

    def _open_in_spark(self) -> None:
        """Write a notebook with three cells about the shown finding, and show them."""
        assert self.result is not None and self.capture is not None  # noqa: S101 - the button is hidden before
        finding = self.result.findings[self.choice.value or 0]
        cells = spark_cells(finding, self.capture, self.result.window)
        try:
            path = write_notebook(Path(), finding, cells)
        except OSError as error:
            self.complain(UsageError(f"The notebook cannot be written: {error.strerror}."))
            return
        self.spark.value = spark_fragment(cells, path.name)
        self.status.value = f"Written: {path.name}."

    def _save(self, write: Callable[[], Path]) -> None:
        try:
            self.status.value = f"Saved as {write()}."
        except WorkbenchError as error:
            self.complain(error)

    def _write_html(self) -> Path:
        path = Path(self.path.value.strip() or "incident").expanduser()
        if path.suffix != ".html":  # in "incident.2", ".2" belongs to the name
            path = path.with_name(f"{path.name}.html")
        assert self.result is not None and self.capture is not None  # noqa: S101 - the button is hidden before
        write_html(path, self.result, self.capture, new=True)
        return path

    def _write_capture(self) -> Path:
        path = Path(self.path.value.strip() or "incident").expanduser()
        assert self.capture is not None  # noqa: S101 - the button is hidden before
        write_capture(path, self.capture)
        return path


def _sources(inputs: Inputs) -> list[str]:
    return list(dict.fromkeys([_A_CAPTURE, *clusters(), *([inputs.cluster] if inputs.cluster else [])]))


def _line(finding: Finding) -> str:
    state = str(finding.state).replace("_", " ")
    return (
        f"{printable(finding.group)} ← {printable(finding.topic)}   {state}   "
        f"{finding.time_lag.words}   {str(finding.verdict).replace('_', ' ')}"
    )


_PANELS: dict[tuple[tuple[str, str], ...], TriagePanel] = {}


def triage_panel(**given: str) -> TriagePanel:
    """Make a panel, or return the one with the same arguments and its inputs.

    Args:
        given: `cluster`, `capture`, `group`, `topic`, `since`, `until`, and `alert`, a file with an Alertmanager webhook.

    Raises:
        UsageError: if the alert cannot be read.
    """
    from workbench.spark.session import start_in_background

    key = tuple(sorted(given.items()))
    if key not in _PANELS:
        panel = _PANELS[key] = TriagePanel(prefill(given))
        panel.address.observe(lambda change: panel.fill_in(prefill(given, query=change["new"])), names="query")
    start_in_background()  # while a person reads the inputs
    return _PANELS[key]
