"""Hold a replay while a group that reads from the same brokers is late, and let it go on when that group is back.

A group counts once it has been seen well: one that was late before anybody looked is not late because of the replay. What is not known
holds nothing, and releases nothing either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol, runtime_checkable

from workbench.errors import NoAnswerError, SourceUnreachableError
from workbench.humanize import duration, listed, plural, printable
from workbench.judgement_numbers import LESS, MOST
from workbench.plans.journal import Journal
from workbench.replay.planfile import Plan
from workbench.replay.service_fleet import InstanceStatus

_HELD = ("draining", "drained")  # states of an instance


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideGroup:
    """A group on the replay's brokers; `behind_seconds` is None if nobody tells it."""

    group: str
    behind_seconds: float | None
    objective_seconds: float

    @property
    def is_late(self) -> bool:
        """Whether it is about to pass its objective: clearly less than that would be too late to act."""
        return self.behind_seconds is not None and self.behind_seconds > LESS * self.objective_seconds

    @property
    def is_back(self) -> bool:
        """Whether it is well within it, so that going on does not at once hold it up again."""
        return self.behind_seconds is not None and self.behind_seconds <= MOST * self.objective_seconds

    @property
    def words(self) -> str:
        """`"payments" is 55 s behind (objective 1 min)`."""
        if self.behind_seconds is None:
            return f"how far {printable(self.group)} is behind cannot be told"
        limit = duration(self.objective_seconds)
        return f"{printable(self.group)} is {duration(self.behind_seconds)} behind (objective {limit})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The groups on the replay's brokers at one moment.

    Attributes:
        unknown: why nothing is known of them; None if they were measured.
        slower: how to slow the replay down by hand, a title and a command or None; and the way back.
    """

    groups: tuple[BesideGroup, ...] = ()
    unknown: str | None = None
    slower: tuple[tuple[str, str | None], ...] = ()


@runtime_checkable
class Pausable(Protocol):
    """A fleet whose instances stop reading and go on, without leaving their group."""

    @property
    def instances(self) -> Sequence[str]:
        """Their names."""

    def status(self, instance: str) -> InstanceStatus:
        """Its status. Raises `SourceUnreachableError` if it does not answer."""

    def pause(self, instance: str) -> None:
        """Finish what was read, and read no more. Raises `WorkbenchError` if it does not."""

    def go_on(self, instance: str) -> None:
        """Read again. Raises `WorkbenchError` if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReport:
    """What a look at the neighbours says.

    Attributes:
        held_for: groups for which the replay is held, or should be. is_held: whether instances of a fleet are.
        unknown: what cannot be told, a sentence each.
        lines: what has changed, for people.
    """

    held_for: tuple[str, ...]
    is_held: bool
    unknown: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As in `workbench.replay-progress/1`."""
        return {"held_for": list(self.held_for), "is_held": self.is_held, "unknown": list(self.unknown)}


@dataclass(slots=True, kw_only=True)
class Holding:
    """Decides, and holds the instances of a fleet that can be held; each change is in the journal.

    Attributes:
        fleet: None, or one that cannot pause: people get the command instead.
    """

    plan: Plan
    journal: Journal
    fleet: Pausable | None = None
    held_for: tuple[str, ...] = ()
    _well: set[str] = field(default_factory=set)
    _unknown: tuple[str, ...] = ()
    _freed: tuple[str, ...] = ()  # they are back, and some instance is not told yet
    _paused: set[str] = field(
        default_factory=set
    )  # instances, by this and not by a person: only they are told to go on

    def __post_init__(self) -> None:
        """Go on where an earlier follower of this plan was ended, perhaps between two instances."""
        entries, _ = self.journal.read()
        own = [it for it in entries if it.plan == self.plan.hash and it.action in ("hold", "release") and it.target]
        for it in own:
            if it.action == "hold":  # begun is enough: it may have been told
                self._paused.add(str(it.target))
            elif it.outcome == "done":
                self._paused.discard(str(it.target))
        if self.fleet is None or not self._paused:
            return
        groups: tuple[str, ...] = ()
        with suppress(ValueError, TypeError):  # the line may have been changed by hand
            groups = tuple(str(it) for it in json.loads(own[-1].detail or "[]"))
        if own[-1].action == "hold":
            self.held_for = groups
            self._well |= set(groups)
        else:
            self._freed = groups

    def look(self, seen: Beside) -> HoldReport:
        """Hold, release, or leave it.

        Raises:
            UsageError: if the journal cannot be written; nothing is changed then.
        """
        now = {it.group: it for it in seen.groups}
        late = [it for it in seen.groups if it.is_late]
        joins = [it for it in late if it.group in self._well and it.group not in self.held_for]
        lines: list[str] = []
        if joins:
            self.held_for = (*self.held_for, *(it.group for it in joins))
        back = self.held_for if all(group in now and now[group].is_back for group in self.held_for) else ()
        if back:
            self.held_for, self._freed = (), back
        if self.held_for:
            lines += self._hold([now[it] for it in self.held_for if it in now], seen, is_new=bool(joins))
        elif self._freed:
            lines += self._release(seen)
        self._well |= {it.group for it in seen.groups if it.behind_seconds is not None and not it.is_late}
        unknown = self._open(seen)
        if unknown != self._unknown:
            lines += [f"Cannot tell: {it}." for it in unknown]
            self._unknown = unknown
        return HoldReport(
            held_for=self.held_for,
            is_held=self.fleet is not None and bool(self._paused),
            unknown=unknown,
            lines=tuple(lines),
        )

    def _open(self, seen: Beside) -> tuple[str, ...]:
        if seen.unknown is not None:
            return (f"whether a group on the same brokers is held up: {seen.unknown.rstrip('.')}",)
        dark = [it.group for it in seen.groups if it.behind_seconds is None]
        gone = [group for group in self.held_for if group not in {it.group for it in seen.groups}]
        names = [*dark, *gone]
        return (f"how far {listed(names)} {'is' if len(names) == 1 else 'are'} behind",) if names else ()

    def _hold(self, late: Sequence[BesideGroup], seen: Beside, *, is_new: bool) -> list[str]:
        why = "; ".join(it.words for it in late)
        if self.fleet is None:
            said = [f"{why[:1].upper()}{why[1:]}, and reads from the same brokers.", *_told(seen.slower[:1])]
            return said if is_new else []
        # At each look: an instance that was restarted reads again, and one that did not answer still does.
        done, problems = self._each(self.fleet, "hold", self.held_for)
        said = [f"Held, because {why}: {plural(done, 'instance reads', 'instances read')} no more."]
        return [*(said if done or is_new else ()), *problems]

    def _release(self, seen: Beside) -> list[str]:
        groups = self._freed
        why = f"{listed(groups)} {'is' if len(groups) == 1 else 'are'} well within the objective again"
        if self.fleet is None:
            self._freed = ()
            return [f"{why}.", *_told(seen.slower[1:])]
        done, problems = self._each(self.fleet, "release", groups)
        self._freed = groups if problems else ()
        return [f"Goes on, because {why}: {plural(done, 'instance reads', 'instances read')} again.", *problems]

    def _each(
        self, fleet: Pausable, action: Literal["hold", "release"], groups: Sequence[str]
    ) -> tuple[int, list[str]]:
        """Hold every instance in the replay's group that reads, or release those that were held; what does not answer is said."""
        done, problems = 0, []
        for instance in fleet.instances:
            if action == "release" and instance not in self._paused:
                continue
            try:
                seen = fleet.status(instance)
                note = partial(
                    self.journal.append,
                    plan=self.plan.hash,
                    cluster_id=self.plan.cluster_id,
                    group=self.plan.new_group,
                    action=action,
                    target=instance,
                    detail=json.dumps(list(groups)),
                )
                if seen.group != self.plan.new_group or (seen.state in _HELD) is (action == "hold"):
                    # It reads already, or is in another group: who holds it after this is another.
                    if action == "release":
                        self._paused.discard(instance)
                        note(phase="end", outcome="done")
                    continue
                note(phase="begin")
                outcome = "failed"
                try:
                    if action == "hold":
                        self._paused.add(instance)
                        fleet.pause(instance)
                    else:
                        fleet.go_on(instance)
                        self._paused.discard(instance)
                    outcome, done = "done", done + 1
                finally:
                    note(phase="end", outcome=outcome)
            except (SourceUnreachableError, NoAnswerError) as error:
                problems.append(f"{printable(instance)}: {error.message}")
        return done, problems


def _told(slower: Sequence[tuple[str, str | None]]) -> list[str]:
    return [title if command is None else f"{title}: {command}" for title, command in slower]
