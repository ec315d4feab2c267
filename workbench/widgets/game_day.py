"""Game day panel: an unnamed incident, a guess, and then the tree's verdict and the truth."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import ipywidgets as w

from workbench.errors import WorkbenchError
from workbench.report.charts import charts_of
from workbench.report.finding_fragment import fragment
from workbench.report.html_report import environment
from workbench.report.terminal import to_runbook
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Verdict
from workbench.widgets import game_day_incidents
from workbench.widgets.controls import WRAPPED, Panel, hooked, outputs, shown, text
from workbench.widgets.game_day_incidents import GameRound, Incident
from workbench.widgets.panel_work import PanelWork

# "Cannot tell" is an answer of the tree, but not one for a person on call.
_NOTHING = ""  # None would show a blank list instead of the question
_CHOICES = [("choose a cause", _NOTHING)] + [
    (str(verdict).replace("_", " "), str(verdict)) for verdict in Verdict if verdict is not Verdict.CANNOT_TELL
]


class GameDayPanel(Panel):
    """Panel of the game; `rounds` has every round that was played, `incident` the current one."""

    def __init__(self, seed: str = "") -> None:
        self.rounds: list[GameRound] = []
        self.incident: Incident | None = None
        self._chance = random.Random(seed or None)  # noqa: S311 - chance, not secrets
        self._drawn: list[str] = []
        self._shown_at = 0.0
        self._hints = 0
        super().__init__()
        self.recorded = self.starter("A recorded incident", "wb-recorded", self.start_recorded, button_style="primary")
        self.live = self.starter("A live incident", "wb-live", self.start_live)
        self.alert = hooked(w.HTML(""), "wb-alert")
        self.charts = hooked(w.Output(), "wb-charts")
        self.guess = hooked(w.Dropdown(options=_CHOICES, description="Cause"), "wb-guess")
        self.where = text("", "Where", "partition 3, or a name", "wb-where")
        self.say = self.starter("Submit", "wb-say", self.judge, button_style="primary")
        self.hint = self.starter("Hint from the tree", "wb-hint", self.one_hint)
        self.guess.observe(lambda _change: self.refresh(), names="value")
        self.guessing = w.HBox([self.guess, self.where, self.say, self.hint], layout={**WRAPPED, "display": "none"})
        self.answer = hooked(w.HTML(""), "wb-answer")
        self.path = hooked(w.HTML(""), "wb-tree")
        self.lay_out(
            w.HBox([self.recorded, self.live, self.cancel, self.bar, self.status], layout=WRAPPED),
            self.trouble,
            self.alert,
            self.guessing,
            self.answer,
            self.charts,
            self.path,
        )
        self.refresh()

    def start_recorded(self) -> None:
        """Start a recorded incident: ready in seconds."""
        try:
            name = game_day_incidents.draw(self._chance, self._drawn)
        except WorkbenchError as error:
            self.complain(error)
            return
        self._drawn.append(name)
        self._start(lambda work: game_day_incidents.recorded(name, work), game_day_incidents.RECORDED_STEPS)

    def start_live(self) -> None:
        """Start a live incident on a real Kafka: ready in about two minutes."""
        self._start(lambda work: game_day_incidents.live(self._chance, work), game_day_incidents.LIVE_STEPS)

    def _start(self, make: Callable[[PanelWork], Incident], steps: int) -> None:
        self.incident, self._hints = None, 0
        self.alert.value = self.answer.value = self.path.value = self.where.value = ""
        self.guess.value, self.charts.outputs = _NOTHING, ()
        shown(self.guessing, False)

        def run(work: PanelWork) -> None:
            incident = make(work)
            work.show(lambda: self._show(incident))

        self.begin(run, steps=steps, done="Your turn.")

    def _show(self, incident: Incident) -> None:
        self.incident, self._shown_at = incident, time.monotonic()
        self._paint_alert()
        capture, window = incident.capture, incident.triage.window
        thresholds = capture.info.thresholds
        self.charts.outputs = outputs(
            charts_of(incident.finding, capture.samples, window, thresholds, events=capture.events)
        )
        shown(self.guessing, True)

    def _paint_alert(self) -> None:
        if self.incident is None:
            return
        self.alert.value = _rendered(
            "game.html.j2",
            it=self.incident.finding,
            window=self.incident.triage.window,
            objective=self.incident.capture.info.thresholds.time_lag_objective_seconds,
            hints=self.incident.finding.path[: self._hints],
        )

    def refresh(self) -> None:
        """Enable Submit once for each incident, as soon as a cause is chosen."""
        open_ = self.incident is not None and not self.answer.value and not self._worker.busy
        self.say.disabled = not (open_ and self.guess.value)
        # The last answer on the path would reveal the verdict.
        self.hint.disabled = not (
            open_ and self.incident is not None and self._hints + 1 < len(self.incident.finding.path)
        )

    def one_hint(self) -> None:
        """Show the tree's next answer, and count it."""
        self._hints += 1
        self._paint_alert()
        self.refresh()

    def judge(self) -> None:
        """Compare the guess with the tree and with the truth."""
        if self.incident is None or not self.guess.value or self.answer.value:
            return
        finding = self.incident.finding
        last = GameRound(
            truth=self.incident.truth,
            guess=Verdict(self.guess.value),
            where=game_day_incidents.places(self.where.value),
            tree=finding.verdict,
            seconds=time.monotonic() - self._shown_at,
            hints=self._hints,
        )
        self.rounds.append(last)
        scope = finding.scope
        found = [
            *scope.partitions,
            *scope.processors,
            *scope.members,
            *scope.brokers,
            *([scope.cause] if scope.cause else []),
        ]
        self.answer.value = _rendered(
            "reveal.html.j2",
            last=last,
            rounds=self.rounds,
            tree_where=", ".join(str(item) for item in found),
            runbook=to_runbook(book) if (book := leaf_of(last.truth.verdict).runbook) else None,
        )
        self.path.value = fragment(finding, self.incident.triage.incomplete)
        self.status.value = "Ready for the next incident."
        self.refresh()


def _rendered(template: str, **values: object) -> str:
    return f'<div class="wb">{environment("workbench.widgets").get_template(template).render(**values)}</div>'


_PANELS: dict[str, GameDayPanel] = {}


def game_day_panel(seed: str = "") -> GameDayPanel:
    """Make a panel, or return the one of the same seed with its score.

    Args:
        seed: the same seed draws the same incidents; empty: random.
    """
    if seed not in _PANELS:
        _PANELS[seed] = GameDayPanel(seed)
    return _PANELS[seed]
