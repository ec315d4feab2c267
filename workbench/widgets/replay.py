"""Replay panel: plan, review, confirm by typing group and number, follow, verify, roll back."""

from __future__ import annotations

from html import escape
from pathlib import Path

import ipywidgets as w

from workbench.api.plan_view import checked_html, plan_chart, plan_html, receipt_html, rolled_back_html
from workbench.api.replay_steps import CONNECTIONS, ReplayConnections
from workbench.errors import UsageError, WorkbenchError
from workbench.humanize import plural, printable
from workbench.replay.confirm import of_plan, of_rollback
from workbench.replay.planfile import Plan, read_plan
from workbench.replay.progress import Pace, ReplayProgress, in_words
from workbench.replay.receipt import Receipt, ReplayOutcome, Rollback, read_rollback, rollback_path
from workbench.settings import load_settings
from workbench.widgets import replay_actions
from workbench.widgets.controls import WRAPPED, Panel, clusters, form, hooked, outputs, shown, text
from workbench.widgets.panel_work import PanelWork
from workbench.widgets.prefill import Wish, wish_of
from workbench.widgets.time_input import TimeField

_AFTER_END = (
    ("refuse to plan", "fail"),
    ("commit the log end: only new records", "end"),
    ("commit nothing", "skip"),
)


class ReplayPanel(Panel):
    """Panel for a replay. Only Apply and Roll back change anything, and both need a typed confirmation.

    Attributes:
        plan, path: the current plan and its file; None without a plan.
        receipt: of the last Apply or Check only.
    """

    def __init__(self, wish: Wish, *, connections: ReplayConnections = CONNECTIONS) -> None:
        self.plan: Plan | None = None
        self.path: Path | None = None
        self.receipt: Receipt | None = None
        self._rollback: Rollback | None = None
        self._is_applied = False
        self._connections = connections
        super().__init__()
        self._make_inputs(wish)
        self._make_review()
        self._make_after()
        self.lay_out(
            form(
                *(self.cluster, self.from_group, self.new_group, self.topics, self.partitions, self.after_end),
                *(self.reason, self.file, self.since, self.until),
            ),
            w.HBox([self.make, self.open, self.cancel, self.bar, self.status], layout=WRAPPED),
            self.trouble,
            self.review,
            self.picture,
            self.confirming,
            self.outcome,
            self.following,
            self.verdict,
            self.going_back,
            self.gone_back,
        )

    def _make_inputs(self, wish: Wish) -> None:
        self._begun_with = wish
        self.cluster = hooked(w.Dropdown(options=_clusters(wish), description="Cluster"), "wb-cluster")
        self.cluster.value = wish.cluster or None
        self.from_group = text(wish.from_group, "Old group", "processed it before", "wb-from-group")
        self.new_group = text(wish.new_group, "New group", "will process it again", "wb-new-group")
        self.topics = text(wish.topics, "Topics", "orders payments", "wb-topics")
        self.partitions = text(wish.partitions, "Partitions", "all; or 3 4, orders:3", "wb-partitions")
        self.since = TimeField(wish.since, "Since", "2026-11-21T03:00:00+08:00", "wb-since", address=self.address)
        self.until = TimeField(
            wish.until, "Until", "the current log end", "wb-until", address=self.address, after=self.since
        )
        self.after_end = hooked(
            w.Dropdown(options=_AFTER_END, value=wish.after_end, description="No record:"), "wb-after-end"
        )
        self.reason = text(wish.reason, "Reason", "for the journal", "wb-reason")
        self.file = text(wish.file, "Plan file", "replay-plan.json", "wb-file")
        self.make = self.starter("Make a plan", "wb-plan", self.start_plan, button_style="primary")
        self.open = self.starter("Open a plan", "wb-open", self.open_plan)

    def _make_review(self) -> None:
        self.review = hooked(w.HTML(""), "wb-review")
        self.picture = hooked(w.Output(), "wb-picture")
        self.asking = hooked(w.HTML(""), "wb-asking")
        self.typed = hooked(w.Text(description="Confirm", placeholder="group and number"), "wb-typed")
        self.check = self.starter("Check only", "wb-check", lambda: self.start_apply(dry_run=True))
        self.apply = self.starter("Apply", "wb-apply", lambda: self.start_apply(dry_run=False), button_style="danger")
        self.typed.observe(lambda _change: self.refresh(), names="value")
        self.confirming = w.VBox(
            [self.asking, w.HBox([self.typed, self.check, self.apply], layout=WRAPPED)], layout={"display": "none"}
        )
        self.outcome = hooked(w.HTML(""), "wb-outcome")

    def _make_after(self) -> None:
        self.follow = self.starter("Follow", "wb-follow", self.start_follow)
        self.verify = self.starter("Verify", "wb-verify", self.start_verify)
        self.records = hooked(w.Checkbox(value=False, description="also read the records"), "wb-records")
        self.messages = hooked(w.IntProgress(min=0, max=1, description="Messages"), "wb-messages")
        self.pace = hooked(w.Label(""), "wb-pace")
        self.following = w.VBox(
            [
                w.HBox([self.follow, self.verify, self.records], layout=WRAPPED),
                w.HBox([self.messages, self.pace], layout=WRAPPED),
            ],
            layout={"display": "none"},
        )
        self.verdict = hooked(w.HTML(""), "wb-verdict")
        self.back_asking = hooked(w.HTML(""), "wb-back-asking")
        self.back_typed = hooked(w.Text(description="Confirm", placeholder="group and number"), "wb-back-typed")
        self.back = self.starter("Roll back", "wb-back", self.start_back, button_style="danger")
        self.back_typed.observe(lambda _change: self.refresh(), names="value")
        self.going_back = w.VBox(
            [self.back_asking, w.HBox([self.back_typed, self.back], layout=WRAPPED)], layout={"display": "none"}
        )
        self.gone_back = hooked(w.HTML(""), "wb-gone-back")
        self.refresh()

    @property
    def wish(self) -> Wish:
        """Current values of the inputs."""
        return Wish(
            cluster=self.cluster.value or "",
            from_group=self.from_group.value,
            new_group=self.new_group.value,
            topics=self.topics.value,
            partitions=self.partitions.value,
            since=self.since.asked,
            until=self.until.asked,
            after_end=self.after_end.value,
            reason=self.reason.value,
            file=self.file.value,
        )

    def fill_in(self, wish: Wish) -> None:
        """Fill the inputs that are still unchanged."""
        before, self._begun_with = self._begun_with, wish
        if (self.cluster.value or "") == before.cluster:
            self.cluster.options = _clusters(wish)
            self.cluster.value = wish.cluster or None
        for name in ("from_group", "new_group", "topics", "since", "until"):
            field = getattr(self, name)
            if field.value == getattr(before, name):
                field.value = getattr(wish, name)

    def refresh(self) -> None:
        """Enable what the state of the plan allows: Apply and Roll back once they are confirmed, Follow and Verify after Apply."""
        idle = not self._worker.busy
        ready = self.plan is not None and of_plan(self.plan).is_right(self.typed.value)
        self.apply.disabled = not (idle and ready)
        way = self._rollback is not None and of_rollback(self._rollback).is_right(self.back_typed.value)
        self.back.disabled = not (idle and way)
        self.follow.disabled = self.verify.disabled = not (idle and self._is_applied)

    def start_plan(self) -> None:
        """Make a plan; results of another plan are cleared."""
        self._forget()
        wish = self.wish

        def run(work: PanelWork) -> None:
            plan, path = replay_actions.plan_it(wish, work, connections=self._connections)
            work.show(lambda: self._show_plan(plan, path))

        self.begin(run, steps=replay_actions.PLAN_STEPS, done="Planned; nothing has been changed.")

    def open_plan(self) -> None:
        """Show the plan in the file, and its rollback if it was applied."""
        self._forget()
        self.trouble.value = ""
        try:
            path = Path(self.file.value.strip()).expanduser()
            if not self.file.value.strip():
                raise UsageError("Enter the name of the plan file.")
            self._show_plan(read_plan(path), path)
            self.status.value = "Opened; nothing was requested or changed."
        except WorkbenchError as error:
            self.complain(error)

    def _forget(self) -> None:
        self.plan, self.path, self.receipt, self._rollback, self._is_applied = None, None, None, None, False
        for place in (self.review, self.outcome, self.verdict, self.gone_back, self.typed, self.back_typed, self.pace):
            place.value = ""
        self.picture.outputs, self.messages.value = (), 0
        for section in (self.confirming, self.following, self.going_back):
            shown(section, False)
        self.refresh()

    def _show_plan(self, plan: Plan, path: Path) -> None:
        self.plan, self.path = plan, path
        try:
            known = load_settings().cluster(plan.cluster)
            bootstrap, login_file = known.bootstrap or "HOST:PORT", known.login_file
        except WorkbenchError:  # a plan can be read without the settings of its cluster
            bootstrap, login_file = "HOST:PORT", None
        self.review.value = plan_html(plan, path, bootstrap, login_file)
        self.picture.outputs = outputs([plan_chart(plan)])
        self._show_state()

    def _show_state(self) -> None:
        self._show_way_back()
        self._ask(applied=self._rollback is not None)

    def _ask(self, *, applied: bool) -> None:
        """Ask for the confirmation; of a plan that was applied, say so."""
        if self.plan is None:
            return
        self._is_applied = applied
        offsets, group = plural(len(self.plan.targets), "offset"), escape(printable(self.plan.new_group))
        before = "Nothing has been written yet"
        if applied:
            before = "It was applied before: applying it again writes only what is not as planned"
        self.asking.value = (
            f'<div class="wb"><p>{before}. To commit {offsets} for the group <strong>{group}</strong>, '
            f"type {of_plan(self.plan).asked}.</p></div>"
        )
        shown(self.confirming, True)
        shown(self.following, True)
        self.refresh()

    def _show_way_back(self) -> None:
        self._rollback = None
        if self.plan is None or self.path is None or not rollback_path(self.path).exists():
            return
        rollback = read_rollback(rollback_path(self.path))
        if rollback.plan != self.plan.hash:
            return
        self._rollback = rollback
        what = (
            f"its {plural(len(rollback.before), 'commit')} restored"
            if rollback.existed
            else "deleted (0 commits), because it did not exist"
        )
        self.back_asking.value = (
            f'<div class="wb"><h3>Roll back</h3><p>Restores the group <strong>{escape(printable(rollback.group))}</strong>: '
            f"{what}. Type {of_rollback(rollback).asked}. File: {escape(printable(rollback_path(self.path)))}</p></div>"
        )
        shown(self.going_back, True)
        self.refresh()

    def start_apply(self, *, dry_run: bool) -> None:
        """Commit the plan, if it is confirmed; or only run the safety checks."""
        if self.path is None:
            return
        path, typed = self.path, self.typed.value
        self.outcome.value = self.verdict.value = ""

        def run(work: PanelWork) -> None:
            try:
                receipt = replay_actions.apply_it(
                    path, typed, work, dry_run=dry_run, held=self.no_way_back, connections=self._connections
                )
            except WorkbenchError:
                work.show(self._show_state)  # it may have written before it failed
                raise
            work.show(lambda: self._show_receipt(receipt))

        self.begin(run, steps=replay_actions.CHECK_STEPS if dry_run else replay_actions.APPLY_STEPS)

    def _show_receipt(self, receipt: Receipt) -> None:
        self.receipt = receipt
        self.outcome.value = receipt_html(receipt)
        if replay_actions.applied(receipt):
            self.typed.value = ""  # another Apply needs another confirmation
            self._show_way_back()
            self._ask(applied=True)
            shown(self.confirming, receipt.outcome is not ReplayOutcome.DONE)

    def start_follow(self) -> None:
        """Show the new group's progress until it has committed the window, or until Cancel."""
        if self.plan is None:
            return
        plan = self.plan

        def run(work: PanelWork) -> None:
            work.step("Following")
            replay_actions.follow_it(plan, work, show=self._show_look, connections=self._connections)

        self.begin(run, steps=1, done="The replay has committed the window. Verify it.")

    def _show_look(self, look: ReplayProgress, pace: Pace) -> None:
        self.messages.max, self.messages.value = max(1, look.total), look.done if look.total else 1
        group = self.plan.new_group if self.plan is not None else ""
        self.pace.value = f"{look.done:,} of {plural(look.total, 'message')}   {in_words(look, pace, group=group)}"

    def start_verify(self) -> None:
        """Compare the new group's commits with the plan."""
        if self.plan is None:
            return
        plan, records = self.plan, self.records.value
        self.verdict.value = ""

        def run(work: PanelWork) -> None:
            found = replay_actions.verify_it(plan, work, records=records, connections=self._connections)
            work.show(lambda: setattr(self.verdict, "value", checked_html(found)))

        self.begin(run, steps=replay_actions.VERIFY_STEPS)

    def start_back(self) -> None:
        """Restore the group as it was before, if that is confirmed."""
        if self.path is None:
            return
        file, typed = rollback_path(self.path), self.back_typed.value
        self.gone_back.value = ""

        def run(work: PanelWork) -> None:
            found = replay_actions.roll_back_it(file, typed, work, held=self.no_way_back, connections=self._connections)

            def show() -> None:
                self.gone_back.value = rolled_back_html(found)
                self.back_typed.value = ""
                if not found.failed:
                    self.outcome.value = self.verdict.value = self.pace.value = ""
                    self.messages.value = 0
                    self._ask(applied=False)

            work.show(show)

        self.begin(run, steps=replay_actions.ROLLBACK_STEPS)


def _clusters(wish: Wish) -> list[str]:
    return list(dict.fromkeys([*clusters(), *([wish.cluster] if wish.cluster else [])]))


_PANELS: dict[tuple[tuple[str, str], ...], ReplayPanel] = {}


def replay_panel(**given: str) -> ReplayPanel:
    """Make a panel, or return the one with the same arguments and its inputs.

    Args:
        given: the names of `Wish`.
    """
    key = tuple(sorted(given.items()))
    if key not in _PANELS:
        panel = _PANELS[key] = ReplayPanel(wish_of(given))
        panel.address.observe(lambda change: panel.fill_in(wish_of(given, query=change["new"])), names="query")
    return _PANELS[key]
