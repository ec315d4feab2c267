"""Ledger of this user: a copy of each plan that was begun, and how it ended. Later plans leave out what earlier ones have handled.

A plan has a folder with `plan.json`, `started` (written after its first position was committed, before its first record), `known` (a
person said that it was applied or discarded elsewhere) and `ended.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from workbench.errors import GuardError, OutputError, UsageError
from workbench.files import make_folder, write_text
from workbench.humanize import listed
from workbench.plans.strict_document import StrictDocument, write_file
from workbench.queues.snapshot_views import Partition
from workbench.redrive.commit_marks import Place, PlanProgress, PlanState, all_letters, handled_letters
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.planfile import RedrivePlan, group_of_hash, plan_of_group, read_redrive_plan
from workbench.user_folders import state_dir

Commits = Callable[[str], Mapping[Partition, int]]  # group to its committed offsets
_STARTED, _ENDED, _PLAN, _KNOWN = "started", "ended.json", "plan.json", "known"


class EndedPlan(StrictDocument):
    """How a plan ended.

    Attributes:
        handled: letters that were produced, by partition; None: all of the plan.
        refused: letters that the target refuses, as partition:offset, with Kafka's name of the error.
    """

    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", frozen=True)

    outcome: Literal["done", "discarded", "given_up"]
    at: str
    reason: str | None = None
    handled: list[tuple[int, str]] | None = Field(default=None, strict=False)
    refused: dict[str, str] = Field(default_factory=dict)

    @property
    def refused_places(self) -> dict[Place, str]:
        """The refused letters by partition and offset."""
        found = [(it.partition(":"), code) for it, code in self.refused.items()]
        return {(int(number), int(offset)): code for (number, _, offset), code in found}


def ended_of(
    outcome: Literal["done", "discarded", "given_up"],
    plan: RedrivePlan,
    progress: PlanProgress,
    *,
    refused: Mapping[Place, str] | None = None,
    reason: str | None = None,
) -> EndedPlan:
    """The end of a plan, now.

    Args:
        progress: of a plan that was given up, what it has produced.
        refused: letters that the target refuses; other plans may take them.
    """
    some = refused or {}
    handled = None
    if outcome != "discarded" and (some or outcome == "given_up"):
        whole = outcome == "done"
        found = (
            all_letters(plan) if whole else all_letters(plan, below=progress.positions, ordered=progress.ordered or 0)
        )
        left = {number: [place[1] for place in some if place[0] == number] for number in found}
        handled = [(number, str(picks.without(left[number]))) for number, picks in sorted(found.items())]
    return EndedPlan(
        outcome=outcome,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=reason,
        handled=handled,
        refused={f"{number}:{offset}": code for (number, offset), code in sorted(some.items())},
    )


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger's folder."""

    folder: Path

    @classmethod
    def of_user(cls) -> Ledger:
        """The ledger of this user on this machine."""
        return cls(state_dir() / "redrive")

    def _of(self, plan: RedrivePlan) -> Path:
        return self.folder / plan.id

    def keep(self, plan: RedrivePlan) -> None:
        """Store a copy of the plan; after this, other plans respect it.

        Raises:
            UsageError: if it cannot be written; nothing is changed then.
        """
        try:
            make_folder(self._of(plan))
        except OSError as error:
            raise UsageError(f"The ledger {self.folder} cannot be written: {error.strerror}.") from None
        try:
            write_file(self._of(plan) / _PLAN, plan.document())
        except UsageError as error:
            raise UsageError(error.message, hint="Nothing was changed. Free some disk space, then repeat.") from None

    def start(self, plan: RedrivePlan) -> None:
        """Note durably that the plan has a position in Kafka: from now on, a missing position means that it has expired.

        Raises:
            UsageError: if it cannot be written.
        """
        self._note(plan, _STARTED)

    def _note(self, plan: RedrivePlan, name: str) -> None:
        try:
            write_text(self._of(plan) / name, plan.hash + "\n", durable=True)
        except OSError as error:
            raise UsageError(f"The ledger {self.folder} cannot be written: {error.strerror}.") from None

    def know(self, plan: RedrivePlan) -> None:
        """Store a plan that was applied or discarded elsewhere; where Kafka says nothing about it, all of its letters are handled.

        Raises:
            UsageError: if it cannot be written.
        """
        self.keep(plan)
        self._note(plan, _KNOWN)

    def was_started(self, plan: RedrivePlan) -> bool:
        """Whether records of the plan may have been produced."""
        return (self._of(plan) / _STARTED).exists()

    def end(self, plan: RedrivePlan, ended: EndedPlan) -> None:
        """Note durably how the plan ended, after Kafka has it.

        Raises:
            OutputError: if it cannot be written; it says that the plan has ended.
        """
        try:
            write_file(self._of(plan) / _ENDED, ended.model_dump(mode="json"))
        except UsageError as error:
            left = ", but for those that the target refuses" if ended.refused else ""
            how = f"its letters are produced{left}" if ended.outcome == "done" else ended.outcome.replace("_", " ")
            raise OutputError(
                f"The plan {plan.short_hash} has ended ({how}), and Kafka has that. But {error.message}",
                hint="Free some disk space, then repeat the command: it reads the end from Kafka, and produces nothing twice.",
            ) from None

    def ended(self, plan: RedrivePlan) -> EndedPlan | None:
        """How the plan ended; None if it did not."""
        return _ended(self._of(plan))

    def plans(self) -> list[RedrivePlan]:
        """All plans, in the order of their names.

        Raises:
            UsageError, GuardError: if a copy is damaged.
        """
        return [read_redrive_plan(path) for path in sorted(self.folder.glob(f"*/{_PLAN}"))]

    def handled(
        self,
        topic: str,
        topic_id: str | None,
        cluster_id: str,
        commits: Commits,
        groups: Iterable[str],
        progress: Callable[[RedrivePlan], PlanProgress],
        *,
        but: str | None = None,
    ) -> tuple[dict[int, Picks], dict[int, Picks]]:
        """Letters of a topic that no other plan may produce, by partition: produced, discarded, or claimed by a plan that has begun.

        Args:
            progress: what Kafka says about a plan.
            groups: names of all groups in Kafka; they show plans that were applied from elsewhere.
            but: hash of a plan that does not count.

        Returns:
            All of them, and those that a plan has discarded: of these alone, none was produced.

        Raises:
            GuardError: if it cannot be told for an earlier plan.
        """
        plans = self.plans()
        known = {it.id for it in plans} | ({group_of_hash(but)} if but is not None else set())
        where = (topic, topic_id, cluster_id)  # a deleted topic of its name had other letters
        earlier = [it for it in plans if it.hash != but and (it.topic, it.topic_id, it.cluster_id) == where]
        found = [self._of_plan(it, progress) for it in earlier]
        strangers = sorted(
            {name.removesuffix("-ordered") for name in groups if plan_of_group(name) is not None} - known
        )
        mine = [name for name in strangers if any(key[0] == topic for key in commits(name))]
        if mine:
            raise GuardError(
                f"Letters of {topic!r} were redriven from another machine or by another user: {listed(mine)}.",
                hint="Add the plan files with --known-plan FILE, so that their letters are left out.",
            )
        return _joined(letters for letters, _ in found), _joined(letters for letters, discarded in found if discarded)

    def _of_plan(
        self, plan: RedrivePlan, progress: Callable[[RedrivePlan], PlanProgress]
    ) -> tuple[dict[int, Picks], bool]:
        """The letters that it has, and whether it has discarded them."""
        if (ended := self.ended(plan)) is not None:
            some = ended.handled
            letters = all_letters(plan) if some is None else {number: Picks.parse(it) for number, it in some}
            return letters, ended.outcome == "discarded"
        found = progress(plan)
        if found.state is None and (self._of(plan) / _KNOWN).exists():
            return all_letters(plan), False  # Kafka has forgotten its position, or an earlier release has discarded it
        if found.state is None and not self.was_started(plan):
            return {}, False
        if any(part.partition not in found.positions for part in plan.partitions):
            raise GuardError(
                f"The plan {plan.short_hash} was begun and not finished, and its position in Kafka has expired.",
                hint=f"See what it has produced with: workbench dlq verify {self._of(plan) / _PLAN}.",
            )
        return handled_letters(plan, found), found.state is PlanState.DISCARDED


def _joined(several: Iterable[Mapping[int, Picks]]) -> dict[int, Picks]:
    """Letters of several plans, by partition."""
    found: dict[int, list[Picks]] = {}
    for letters in several:
        for number, picks in letters.items():
            found.setdefault(number, []).append(picks)
    return {number: Picks.union(them) for number, them in found.items()}


def _ended(folder: Path) -> EndedPlan | None:
    path = folder / _ENDED
    try:
        return EndedPlan.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise GuardError(
            f"{path} is damaged: it cannot be told how the plan ended.", hint="Restore it from a backup."
        ) from None
