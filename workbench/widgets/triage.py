"""The triage panel: where to look, one button, and the answer with its evidence."""

from __future__ import annotations

from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as w

from workbench.collect.capture import Capture, write_capture
from workbench.errors import ConfigError, WorkbenchError
from workbench.report.charts import Chart, charts_of
from workbench.report.firstlook import first_look
from workbench.report.fragment import fragment, style
from workbench.report.html import write_html
from workbench.settings import LAB_CLUSTER, load_settings
from workbench.triage.engine import Triage
from workbench.triage.finding import Finding
from workbench.widgets.look import STEPS, Looked, look
from workbench.widgets.prefill import Inputs, prefill
from workbench.widgets.work import Work, Worker
from workbench.window import Window
from workbench.words import duration, one_line, printable

_A_CAPTURE = "(a capture)"
_WIDE = {"width": "100%"}
# The upload to somebody's cloud is on by default in plotly 7; an incident's chart does not leave this machine.
_PLOTLY_CONFIG = {"showSendToCloud": False, "displaylogo": False, "responsive": True}


class TriagePanel(w.VBox):  # type: ignore[misc]
    """Inputs, buttons and the answer; `result` and `capture` hold what was found.

    Nothing is asked before the button is pressed. Group, topic and everything else that comes from a broker is shown as text only.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.capture: Capture | None = None
        self.result: Triage | None = None
        self.window: Window | None = None
        self._worker = Worker()
        self._make_inputs(inputs)
        self._make_outputs()
        rows = [
            w.HTML(f"<style>{style()}</style>"),
            w.HBox([self.source, self.folder], layout={"flex_flow": "row wrap"}),
            w.HBox([self.group, self.topic, self.since, self.until], layout={"flex_flow": "row wrap"}),
            w.HBox([self.find, self.cancel, self.bar, self.status], layout={"flex_flow": "row wrap"}),
            self.trouble,
            self.first,
            self.choice,
            self.answer,
            self.charts,
            self.saving,
        ]
        super().__init__(rows, layout=_WIDE)
        self.add_class("wb-panel")

    def _make_inputs(self, inputs: Inputs) -> None:
        names = _clusters()
        if inputs.cluster and inputs.cluster not in names:
            names.append(inputs.cluster)
        chosen = inputs.cluster or _A_CAPTURE
        self.source = _hooked(
            w.Dropdown(options=[_A_CAPTURE, *names], value=chosen, description="Cluster"), "wb-source"
        )
        self.folder = _hooked(_text(inputs.capture, "Capture", "folder of a recording"), "wb-capture")
        self.group = _hooked(_text(inputs.group, "Group", "all"), "wb-group")
        self.topic = _hooked(_text(inputs.topic, "Topic", "all"), "wb-topic")
        self.since = _hooked(_text(inputs.since, "Since", "15m ago"), "wb-since")
        self.until = _hooked(_text(inputs.until, "Until", "now"), "wb-until")
        self.find = _hooked(w.Button(description="Find the cause", button_style="primary", icon="search"), "wb-find")
        self.cancel = _hooked(w.Button(description="Cancel", disabled=True), "wb-cancel")
        self.find.on_click(lambda _button: self.start())
        self.cancel.on_click(lambda _button: self.stop())

    def _make_outputs(self) -> None:
        self.bar = w.IntProgress(min=0, max=STEPS, layout={"width": "8rem"})
        self.status = _hooked(w.Label(""), "wb-status")
        self.trouble = _hooked(w.HTML(""), "wb-trouble")
        self.first = _hooked(w.Output(), "wb-first")
        self.choice = _hooked(
            w.Select(options=[], rows=4, description="Findings", layout={"width": "98%"}), "wb-choice"
        )
        self.choice.layout.display = "none"
        self.choice.observe(lambda change: self._show(change["new"]), names="value")
        self.answer = _hooked(w.HTML(""), "wb-answer")
        self.charts = _hooked(w.Output(), "wb-charts")
        self.path = _hooked(w.Text(value="incident", description="Save as", placeholder="name"), "wb-path")
        self.save_html = _hooked(w.Button(description="Save report"), "wb-save-html")
        self.save_capture = _hooked(w.Button(description="Save capture"), "wb-save-capture")
        self.save_html.on_click(lambda _button: self._save(self._write_html))
        self.save_capture.on_click(lambda _button: self._save(self._write_capture))
        self.saving = w.HBox([self.path, self.save_html, self.save_capture], layout={"display": "none"})

    @property
    def inputs(self) -> Inputs:
        """What stands in the inputs now."""
        capture = self.source.value == _A_CAPTURE
        return Inputs(
            cluster="" if capture else self.source.value,
            capture=self.folder.value.strip() if capture else "",
            group=self.group.value,
            topic=self.topic.value,
            since=self.since.value.strip(),
            until=self.until.value.strip(),
        )

    def start(self) -> None:
        """Begin to look; what was shown goes."""
        self.trouble.value, self.answer.value = "", ""
        self.first.outputs, self.charts.outputs = (), ()
        self.choice.layout.display = self.saving.layout.display = "none"
        self.find.disabled, self.cancel.disabled = True, False
        asked = self.inputs

        def run(work: Work) -> None:
            looked = look(asked, work, first=self._paint_first)
            work.show(lambda: self._found(looked))

        self._worker.start(run, tell=self._tell, ended=self._ended)

    def stop(self) -> None:
        """Cancel; at once, whatever the work is waiting for."""
        if self._worker.cancel():
            self._idle("Cancelled.")
            self.bar.value = 0

    def wait(self, seconds: float = 600.0) -> None:
        """Wait for the answer; for notebooks that run without anybody there."""
        self._worker.wait(seconds)

    def _tell(self, done: int, title: str) -> None:
        self.bar.value, self.status.value = done, f"{title} …"

    def _idle(self, words: str) -> None:
        self.find.disabled, self.cancel.disabled = False, True
        self.status.value = words

    def _ended(self, error: BaseException | None) -> None:
        self.bar.value = STEPS if error is None else 0
        self._idle("Done." if error is None else "Not done.")
        if isinstance(error, WorkbenchError):
            self._complain(error.message, error.hint)
        elif error is not None:
            self._complain(f"{type(error).__name__}: {error}", "This is a fault of Workbench itself.")

    def _complain(self, message: str, hint: str | None) -> None:
        words = escape(one_line(message)) + (f"<br>{escape(one_line(hint))}" if hint else "")
        self.trouble.value = f'<div class="wb"><p class="note" role="alert">{words}</p></div>'

    def _paint_first(self, capture: Capture, window: Window) -> None:
        chart = first_look(capture, window, group=self.group.value, topic=self.topic.value)
        if chart is not None:
            self.first.outputs = _outputs([chart])

    def _found(self, looked: Looked) -> None:
        self.capture, self.result, self.window = looked.capture, looked.result, looked.result.window
        self.choice.options = [(_line(it), number) for number, it in enumerate(looked.result.findings)]
        self.choice.layout.display = "" if len(looked.result.findings) > 1 else "none"
        self.choice.value = 0
        self._show(0)
        self.first.outputs = ()  # the finding's own charts say more
        self.saving.layout.display = ""

    def _show(self, number: int | None) -> None:
        if self.result is None or self.capture is None or number is None:
            return
        finding = self.result.findings[number]
        self.answer.value = fragment(finding, self.result.incomplete)
        thresholds = self.capture.info.thresholds
        self.charts.outputs = _outputs(
            charts_of(finding, self.capture.samples, self.result.window, thresholds, events=self.capture.events)
        )

    def _save(self, write: Any) -> None:
        try:
            self.status.value = f"Saved as {write()}."
        except WorkbenchError as error:
            self._complain(error.message, error.hint)

    def _write_html(self) -> Path:
        path = Path(self.path.value.strip() or "incident").expanduser().with_suffix(".html")
        assert self.result is not None and self.capture is not None  # noqa: S101 - the button is hidden before
        write_html(path, self.result, self.capture)
        return path

    def _write_capture(self) -> Path:
        path = Path(self.path.value.strip() or "incident").expanduser()
        assert self.capture is not None  # noqa: S101 - the button is hidden before
        write_capture(path, self.capture)
        return path


def _clusters() -> list[str]:
    """Names of the settings, and the lab's if it is up; a broken settings file is told when it is used."""
    try:
        settings = load_settings()
    except ConfigError:
        return []
    names = sorted(settings.clusters)
    with suppress(WorkbenchError):
        names.append(settings.cluster(LAB_CLUSTER).name)
    return list(dict.fromkeys(names))


def _text(value: str, description: str, placeholder: str) -> Any:
    return w.Text(value=value, description=description, placeholder=placeholder, continuous_update=False)


def _hooked(widget: Any, name: str) -> Any:
    """With a class of its own, for style sheets and tests."""
    widget.add_class(name)
    return widget


def _line(finding: Finding) -> str:
    state = str(finding.state).replace("_", " ")
    return (
        f"{printable(finding.group)} ← {printable(finding.topic)}   {state}   "
        f"{duration(finding.time_lag.seconds)}   {str(finding.verdict).replace('_', ' ')}"
    )


def _outputs(charts: list[Chart]) -> tuple[dict[str, Any], ...]:
    """Charts as a notebook's outputs: data only, drawn by the notebook's own plotly, with each one's message above it."""
    found: list[dict[str, Any]] = []
    for chart in charts:
        heading = f'<div class="wb"><div class="chart"><h4>{escape(chart.title)}</h4></div></div>'
        found.append(
            {"output_type": "display_data", "data": {"text/html": heading, "text/plain": chart.title}, "metadata": {}}
        )
        figure = {**chart.figure, "config": _PLOTLY_CONFIG}
        found.append(
            {
                "output_type": "display_data",
                "data": {"application/vnd.plotly.v1+json": figure, "text/plain": chart.title},
                "metadata": {},
            }
        )
    return tuple(found)


_PANELS: dict[tuple[tuple[str, str], ...], TriagePanel] = {}


def triage_panel(**given: str) -> TriagePanel:
    """A panel; called again with the same words, the same panel with all that was typed into it.

    Args:
        given: `cluster`, `capture`, `group`, `topic`, `since`, `until`, and `alert`, a file with an Alertmanager webhook.

    Raises:
        UsageError: if the alert cannot be read.
    """
    from workbench.spark import start_in_background

    key = tuple(sorted(given.items()))
    if key not in _PANELS:
        _PANELS[key] = TriagePanel(prefill(given))
    start_in_background()  # while a person reads what is filled in
    return _PANELS[key]
