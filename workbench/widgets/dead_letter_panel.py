"""Dead-letter panel: list, plan, confirm by typing topic and number, produce again, verify."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import ipywidgets as w

from workbench.api.redrive_as_html import check_html, redrive_receipt_html
from workbench.humanize import plural, printable
from workbench.plans.confirm import Confirmation
from workbench.redrive.confirmation import of_letters
from workbench.widgets import letters_actions
from workbench.widgets.controls import WRAPPED, Panel, clusters, form, hooked, shown, text
from workbench.widgets.letters_actions import DOORS, Doors
from workbench.widgets.panel_work import PanelWork
from workbench.widgets.prefill import LettersWish, letters_wish_of
from workbench.widgets.time_input import TimeField

if TYPE_CHECKING:
    from workbench.api.letter_redrives import LetterTopics, PlannedRedrive
    from workbench.redrive.apply import RedriveReceipt
    from workbench.redrive.verify import RedriveCheck


class LettersPanel(Panel):
    """Panel for dead letters. Only Apply produces records, and needs a typed hash.

    Attributes:
        topics: of the last List; planned, path: the current plan and its file; receipt, check: of the last Apply and Verify.
    """

    def __init__(self, wish: LettersWish, *, doors: Doors = DOORS) -> None:
        self.topics: LetterTopics | None = None
        self.planned: PlannedRedrive | None = None
        self.path: Path | None = None
        self.receipt: RedriveReceipt | None = None
        self.check: RedriveCheck | None = None
        self._doors = doors
        super().__init__()
        self._make_inputs(wish)
        self._make_review()
        self.lay_out(
            form(
                *(self.cluster, self.topic, self.errors, self.sources, self.to_topic, self.most, self.cap, self.reason),
                *(self.file, self.since, self.until),
            ),
            w.HBox([self.look, self.make, self.cancel, self.bar, self.status], layout=WRAPPED),
            self.trouble,
            self.found,
            self.review,
            self.confirming,
            self.outcome,
            self.verdict,
        )

    def _make_inputs(self, wish: LettersWish) -> None:
        self._begun_with = wish
        self.cluster = hooked(w.Dropdown(options=_clusters(wish), description="Cluster"), "wb-cluster")
        self.cluster.value = wish.cluster or None
        self.topic = text(wish.topic, "DLQ topic", "such as orders.dlq", "wb-topic")
        self.errors = text(wish.errors, "Errors", "all; or *Timeout*", "wb-errors")
        self.sources = text(wish.sources, "Sources", "all; or orders", "wb-sources")
        self.since = TimeField(wish.since, "Since", "the first; or 2h ago", "wb-since", address=self.address)
        self.until = TimeField(wish.until, "Until", "the last", "wb-until", address=self.address, after=self.since)
        self.to_topic = text(wish.to_topic, "To topic", "where each came from", "wb-to-topic")
        self.most = text(wish.most, "At most", "all; or a number", "wb-most")
        self.cap = text(wish.cap, "Records/s", "no cap", "wb-cap")
        self.reason = text(wish.reason, "Reason", "for the journal", "wb-reason")
        self.file = text(wish.file, "Plan file", "redrive-plan-….json", "wb-file")
        self.look = self.starter("List dead letters", "wb-list", self.start_list)
        self.make = self.starter("Make a plan", "wb-plan", self.start_plan, button_style="primary")

    def _make_review(self) -> None:
        self.found = hooked(w.HTML(""), "wb-found")
        self.review = hooked(w.HTML(""), "wb-review")
        self.asking = hooked(w.HTML(""), "wb-asking")
        self.typed = hooked(w.Text(description="Confirm", placeholder="topic and number"), "wb-typed")
        self.dry = self.starter("Check only", "wb-check", lambda: self.start_apply(dry_run=True))
        self.apply = self.starter("Apply", "wb-apply", lambda: self.start_apply(dry_run=False), button_style="danger")
        self.verify = self.starter("Verify", "wb-verify", self.start_verify)
        self.typed.observe(lambda _change: self.refresh(), names="value")
        self.records = hooked(w.IntProgress(min=0, max=1, description="Records"), "wb-records")
        self.confirming = w.VBox(
            [self.asking, w.HBox([self.typed, self.dry, self.apply, self.verify, self.records], layout=WRAPPED)],
            layout={"display": "none"},
        )
        self.outcome = hooked(w.HTML(""), "wb-outcome")
        self.verdict = hooked(w.HTML(""), "wb-verdict")
        self.refresh()

    @property
    def wish(self) -> LettersWish:
        """Current values of the inputs."""
        names = ("topic", "errors", "sources", "to_topic", "most", "cap", "reason", "file")
        typed = {it: getattr(self, it).value.strip() for it in names}
        return LettersWish(cluster=self.cluster.value or "", since=self.since.asked, until=self.until.asked, **typed)

    def fill_in(self, wish: LettersWish) -> None:
        """Fill the inputs that are still unchanged."""
        before, self._begun_with = self._begun_with, wish
        if (self.cluster.value or "") == before.cluster:
            self.cluster.options = _clusters(wish)
            self.cluster.value = wish.cluster or None
        if self.topic.value == before.topic:
            self.topic.value = wish.topic

    def refresh(self) -> None:
        """Enable Apply only when nothing runs and it is confirmed; Verify once something was produced."""
        expected = self._expected()
        ready = expected is not None and expected.is_right(self.typed.value)
        self.apply.disabled = self._worker.busy or not ready
        done = self.receipt is not None and self.receipt.outcome.value in ("done", "partial")
        self.verify.disabled = self._worker.busy or not done

    def _expected(self) -> Confirmation | None:
        if self.planned is None:
            return None
        plan = self.planned.plan
        return of_letters(plan.hash, plan.topic, plan.letters)

    def start_list(self) -> None:
        """List the topics with dead letters."""
        wish = self.wish

        def run(work: PanelWork) -> None:
            found = letters_actions.list_them(wish, work, doors=self._doors)
            work.show(lambda: self._show_topics(found))

        self.begin(run, steps=letters_actions.LIST_STEPS)

    def _show_topics(self, found: LetterTopics) -> None:
        self.topics = found
        self.found.value = found._repr_html_()
        if not self.topic.value and len(found.topics) == 1:
            self.topic.value = found.topics[0].topic

    def start_plan(self) -> None:
        """Make a plan; results of another plan are cleared."""
        self.planned, self.path, self.receipt, self.check = None, None, None, None
        for place in (self.review, self.outcome, self.verdict, self.typed):
            place.value = ""
        self.records.value = 0
        shown(self.confirming, False)
        self.refresh()
        wish = self.wish

        def run(work: PanelWork) -> None:
            planned, path = letters_actions.plan_it(wish, work, doors=self._doors)
            work.show(lambda: self._show_plan(planned, path))

        self.begin(run, steps=letters_actions.PLAN_STEPS, done="Planned; nothing has been produced.")

    def _show_plan(self, planned: PlannedRedrive, path: Path) -> None:
        self.planned, self.path = planned, path
        self.review.value = planned._repr_html_()
        plan = planned.plan
        self.asking.value = (
            f'<div class="wb"><p>Nothing has been produced yet. To produce {plural(plan.letters, "record")} again, type '
            f"the dead-letter topic and the number of letters. The plan: {escape(printable(path))}</p></div>"
        )
        self.records.max = max(1, plan.letters)
        shown(self.confirming, True)

    def start_apply(self, *, dry_run: bool) -> None:
        """Produce the plan's records, if its hash is typed; or only run the safety checks."""
        if self.path is None:
            return
        path, typed, expected = self.path, None if dry_run else self.typed.value, self._expected()
        self.outcome.value = self.verdict.value = ""

        def run(work: PanelWork) -> None:
            receipt = letters_actions.apply_it(
                path, typed, work, expected=expected, held=self.no_way_back, show=self._show_produced, doors=self._doors
            )
            work.show(lambda: self._show_receipt(receipt))

        self.begin(run, steps=letters_actions.APPLY_STEPS)

    def _show_produced(self, produced: int) -> None:
        self.records.value = min(produced, self.records.max)

    def _show_receipt(self, receipt: RedriveReceipt) -> None:
        self.receipt = receipt
        self.outcome.value = redrive_receipt_html(receipt)
        if receipt.outcome.value == "done":
            self.records.value = self.records.max
            self.typed.value = ""  # another Apply needs another confirmation
            self.asking.value = (
                '<div class="wb"><p>Produced. Verify it; applying it again produces nothing more.</p></div>'
            )

    def start_verify(self) -> None:
        """Compare the target topics with the plan."""
        if self.path is None:
            return
        path = self.path
        self.verdict.value = ""

        def run(work: PanelWork) -> None:
            found = letters_actions.verify_it(path, work, doors=self._doors)
            work.show(lambda: self._show_check(found))

        self.begin(run, steps=letters_actions.VERIFY_STEPS)

    def _show_check(self, found: RedriveCheck) -> None:
        self.check = found
        self.verdict.value = check_html(found)


def _clusters(wish: LettersWish) -> list[str]:
    return list(dict.fromkeys([*clusters(), *([wish.cluster] if wish.cluster else [])]))


_PANELS: dict[tuple[tuple[str, str], ...], LettersPanel] = {}


def letters_panel(**given: str) -> LettersPanel:
    """Make a panel, or return the one with the same arguments and its inputs.

    Args:
        given: the names of `LettersWish`.
    """
    key = tuple(sorted(given.items()))
    if key not in _PANELS:
        panel = _PANELS[key] = LettersPanel(letters_wish_of(given))
        panel.address.observe(lambda change: panel.fill_in(letters_wish_of(given, query=change["new"])), names="query")
    return _PANELS[key]
