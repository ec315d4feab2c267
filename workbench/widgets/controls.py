"""Common parts of the panels: buttons with Cancel, progress and status, error messages, charts as outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from html import escape
from typing import Any

import ipywidgets as w

from workbench.errors import ConfigError, SetupError, SourceUnreachableError, WorkbenchError
from workbench.humanize import one_line
from workbench.masking import masked
from workbench.report.chart_as_table import chart_numbers
from workbench.report.charts import PLOTLY_CONFIG, Chart
from workbench.report.finding_fragment import style
from workbench.settings import LAB_CLUSTER, Windows, load_settings
from workbench.spark.session import has_ended
from workbench.widgets.panel_browser_part import Address
from workbench.widgets.panel_work import PanelWork, PanelWorker

WIDE = {"width": "100%"}
WRAPPED = {"flex_flow": "row wrap"}
# plotly 7 shows an upload to a public cloud by default; an incident's chart must not leave this machine.
# A chart in a notebook does not know the notebook's theme: these colours are readable on white and on black.
_INK = "#6c7783"
_USUAL_HEIGHT = 260  # pixels: of a chart in a notebook, see `finding_fragment.style`
_AXIS = {"gridcolor": "rgba(127,127,127,0.25)", "linecolor": _INK, "zerolinecolor": "rgba(127,127,127,0.5)"}


class Panel(w.VBox):  # type: ignore[misc]
    """Base class: runs one piece of work at a time, in its own thread; the buttons that start work are disabled meanwhile.

    Text from a broker is shown as text only.
    """

    def __init__(self) -> None:
        self._worker = PanelWorker()
        self._starters: list[Any] = []
        self._pressed = ""  # what the button says that started the last work
        self.address = Address()
        self.cancel = hooked(w.Button(description="Cancel", disabled=True), "wb-cancel")
        self.cancel.on_click(lambda _button: self.stop())
        self.bar = w.IntProgress(min=0, max=1, layout={"width": "8rem"})
        self.status = hooked(w.Label(""), "wb-status")
        self.trouble = hooked(w.HTML(""), "wb-trouble")
        super().__init__(layout=WIDE)
        self.add_class("wb-panel")

    def lay_out(self, *rows: Any) -> None:
        """Put the rows into the panel."""
        self.children = [self.address, w.HTML(f"<style>{style()}</style>"), *rows]

    def starter(self, words: str, hook: str, action: Callable[[], None], **look: str) -> Any:
        """Make a button that starts work."""
        button = hooked(w.Button(description=words, layout={"width": "auto", "min_width": "9rem"}, **look), hook)

        def pressed(_button: Any) -> None:
            self._pressed = words
            action()

        button.on_click(pressed)
        self._starters.append(button)
        return button

    def begin(self, run: Callable[[PanelWork], None], *, steps: int, done: str = "Done.") -> None:
        """Start a piece of work; an error is shown in `trouble`."""
        self.trouble.value = ""
        self.bar.max, self.bar.value = steps, 0
        for button in self._starters:
            button.disabled = True
        self.cancel.disabled = False
        self._worker.start(run, tell=self._tell, ended=lambda error: self._ended(error, done))

    def stop(self) -> None:
        """Cancel immediately, unless the work is past its point of no return."""
        if self._worker.cancel():
            self._idle("Cancelled.")
            self.bar.value = 0

    def wait(self, seconds: float = 600.0) -> None:
        """Wait for the result; for notebooks that run unattended."""
        self._worker.wait(seconds)

    def no_way_back(self) -> None:
        """Disable Cancel: from here on, the work must complete."""
        self.cancel.disabled = True

    def refresh(self) -> None:
        """Update buttons with further conditions; called when the work has ended."""

    def complain(self, error: BaseException) -> None:
        """Show an error: its message and its hint."""
        if isinstance(error, WorkbenchError):
            message, hint = error.message, error.hint
        elif has_ended():
            message = "Spark has ended: its Java process was killed, perhaps for want of memory."
            hint = "Choose Kernel → Restart Kernel and Run All Cells, and press the button again."
        else:
            message, hint = masked(f"{type(error).__name__}: {error}"), "This is a bug in Workbench."
        words = escape(one_line(message)) + (f"<br>{escape(one_line(hint))}" if hint else "")
        self.trouble.value = f'<div class="wb"><p class="note" role="alert">{words}</p></div>'

    def _tell(self, done: int, title: str) -> None:
        self.bar.value, self.status.value = done, f"{title} …"

    def _idle(self, words: str) -> None:
        with (
            ExitStack() as held
        ):  # else a page shows each button as pressable for a moment, whatever its conditions are
            for button in self._starters:
                held.enter_context(button.hold_sync())
                button.disabled = False
            self.refresh()
        self.cancel.disabled = True
        self.status.value = words  # last: who reads "done" finds the buttons as they stay

    def _ended(self, error: BaseException | None, done: str) -> None:
        self.bar.value = self.bar.max if error is None else 0
        if error is not None:
            self.complain(error)
        self._idle(done if error is None else f"Failed.{self._what_next(error)}")

    def _what_next(self, error: BaseException) -> str:
        """What to press after an error that may pass: a source that does not answer."""
        if isinstance(error, SourceUnreachableError) and not isinstance(error, SetupError) and self._pressed:
            return f" When it answers again, press {self._pressed}."
        return ""


def clusters() -> list[str]:
    """Names of the clusters in the settings, and `lab` if the lab is running; a broken settings file is reported when it is used."""
    try:
        settings = load_settings()
    except ConfigError:
        return []
    names = sorted(settings.clusters)
    with suppress(WorkbenchError):
        names.append(settings.cluster(LAB_CLUSTER).name)
    return list(dict.fromkeys(names))


# Starts of a window that people look at: an alert, a deploy, a night.
STARTS = ("15m ago", "30m ago", "1h ago", "3h ago", "12h ago")


def usual_start(cluster: str) -> str:
    """Start of a window that is not named, as it could be typed: "15m ago"; of the defaults if the settings cannot be read."""
    try:
        settings = load_settings()
        windows = settings.windows_of(settings.cluster(cluster))
    except WorkbenchError:
        windows = Windows()
    seconds = round(windows.length.total_seconds())
    return f"{seconds}s ago" if seconds % 60 else f"{seconds // 60}m ago"


def text(value: str, description: str, placeholder: str, hook: str, **options: Any) -> Any:
    """Make an input of one line; `options`, a list, are offered while somebody types, and anything else may be typed."""
    kind = w.Combobox if "options" in options else w.Text
    made = kind(value=value, description=description, placeholder=placeholder, continuous_update=False, **options)
    return hooked(made, hook)


def form(*inputs: Any) -> Any:
    """Arrange inputs in rows of four, two, or one, as wide as the panel is; a time has a row of its own."""
    return hooked(w.Box(list(inputs)), "wb-form")


def hooked(widget: Any, name: str) -> Any:
    """Give a widget a CSS class, for style sheets and tests."""
    widget.add_class(name)
    return widget


def shown(widget: Any, visible: bool) -> None:
    """Show or hide a widget."""
    widget.layout.display = "" if visible else "none"


def outputs(charts: Sequence[Chart]) -> tuple[dict[str, Any], ...]:
    """Convert charts to notebook outputs: the title, the figure (drawn by the notebook's own plotly), and the values as a table."""
    found: list[dict[str, Any]] = []
    for chart in charts:
        figure = {**chart.figure, "layout": _themed(chart.figure["layout"]), "config": PLOTLY_CONFIG}
        height = figure["layout"].get("height", 0)
        heading = f'<div class="wb"><div class="chart"><h4>{escape(chart.title)}</h4></div></div>{_room_for(height)}'
        found.append(_output("text/html", heading, chart.title))
        found.append(_output("application/vnd.plotly.v1+json", figure, chart.title))
        found.append(_output("text/html", f'<div class="wb">{chart_numbers(chart)}</div>', "The values as a table"))
    return tuple(found)


def _room_for(height: float) -> str:
    """A chart that is higher than most keeps its height: on a resize, plotly takes that of its place, which has none of its own."""
    if height <= _USUAL_HEIGHT:
        return ""
    place = f'.jp-OutputArea-child:has([data-height="{height:g}"]) + .jp-OutputArea-child .jp-RenderedPlotly'
    return f'<style data-height="{height:g}">{place} {{ min-height: {height:g}px; }}</style>'


def _themed(layout: Mapping[str, Any]) -> dict[str, Any]:
    axes = {name: {**layout[name], **_AXIS} for name in ("xaxis", "yaxis") if name in layout}
    return {**layout, **axes, "font": {"color": _INK}}


def _output(kind: str, value: Any, plain: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {kind: value, "text/plain": plain}, "metadata": {}}
