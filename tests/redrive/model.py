"""A model of Kafka for redrives: transactions, fencing, time-outs, refusals, a quota, kills; two machines share nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.redrive.fakes import KilledError
from tests.redrive.making import SOURCE, TOPIC, gateway_of
from workbench.errors import SourceUnreachableError
from workbench.redrive.apply import Redrive
from workbench.redrive.commit_marks import Mark, Place, PlanProgress, PlanState
from workbench.redrive.guard import RedriveLimits, RedriveNow
from workbench.redrive.letter_headers import Headers, Letter
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.plan import RedriveRequest, make_redrive_plan
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.rate_cap import SendPace
from workbench.redrive.redrive_ledger import Ledger
from workbench.redrive.redrive_ports import FencedError, LettersRefusedError, Marks, Positions, SlowError

TRANSACTION_SECONDS, COMMIT_SECONDS = 60.0, 45.0
CLAIMS = "claims"


@dataclass
class Group:
    """Commits of a plan."""

    positions: dict[int, int] = field(default_factory=dict)
    marks: dict[int, str] = field(default_factory=dict)
    ordered: int | None = None


@dataclass
class Broker:
    """What survives every kill, and a clock.

    Attributes:
        refused: letters that the target refuses.
        bytes_per_second: that it takes.
        stalls: number of commits that come after the transaction's time-out.
        steps_left: steps until the process is killed; None: never.
        between: called once between the check and the commit of a claim: another machine.
    """

    letters: list[Letter] = field(default_factory=list)
    refused: set[Place] = field(default_factory=set)
    records: list[Place] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    bytes_per_second: float = 1e9
    stalls: int = 0
    away: int = 0
    steps_left: int | None = None
    between: Callable[[], None] | None = None
    now: float = 0.0

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    def step(self) -> None:
        """One step of the process under test; it may be the last one."""
        self.now += 0.01
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise KilledError

    def begin(self, name: str) -> int:
        """A new producer fences the earlier ones of its transactional id."""
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def check(self, name: str, epoch: int) -> None:
        """Refuse a producer that is fenced."""
        if self.epochs.get(name, 0) != epoch:
            raise FencedError("Another process has taken over the plan.")

    def progress(self, plan: RedrivePlan) -> PlanProgress:
        """What is committed of a plan."""
        group = self.groups.get(plan.id, Group())
        marks = {number: Mark.parse(group.marks.get(number)) for number in group.positions}
        return PlanProgress(positions=dict(group.positions), ordered=group.ordered, marks=marks)

    def commits(self, group: str) -> Mapping[tuple[str, int], int]:
        """Commits of a group, without their texts."""
        return {(TOPIC, number): at for number, at in self.groups.get(group, Group()).positions.items()}

    def write(self, plan: RedrivePlan, positions: Positions, ordered: int | None, marks: Marks) -> None:
        """Positions and texts take effect together."""
        group = self.groups.setdefault(plan.id, Group())
        group.positions |= positions
        group.marks |= {number: marks.get(number, "") for number in positions}
        group.ordered = ordered if ordered is not None else group.ordered

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        """See `LetterReader`; batches of five letters."""
        left = {number: at for number, at in start.items() if at < stop[number]}
        chosen = [it for it in self.letters if it.partition in left and left[it.partition] <= it.offset]
        chosen = [it for it in chosen if it.offset < stop[it.partition]]
        for at in range(0, len(chosen), 5):
            self.step()
            batch = chosen[at : at + 5]
            left |= {it.partition: it.offset + 1 for it in batch}
            yield batch, dict(left)
        yield [], {number: stop[number] for number in left}


@dataclass
class ModelSink:
    """See `Sink`."""

    broker: Broker
    plan: RedrivePlan
    takes_at_once: bool = False
    epoch: int = -1
    careful: bool = False
    opened: float = 0.0
    pending: list[tuple[Place, int]] = field(default_factory=list)

    def begin(self, *, careful: bool = False) -> None:
        """Fences the earlier sinks of the plan."""
        self.broker.step()
        self.epoch, self.careful = self.broker.begin(self.plan.id), careful

    def progress(self) -> PlanProgress:
        """What is committed."""
        self.broker.step()
        return self.broker.progress(self.plan)

    def claim(self, positions: Positions, ordered: int | None, marks: Marks, check: Callable[[], None]) -> PlanProgress:
        """As Kafka's transactions do it: who begins later fences who has not committed yet."""
        while True:
            epoch = self.broker.begin(CLAIMS)
            if (found := self.broker.progress(self.plan)).positions:
                return found
            check()
            self.broker.step()
            between, self.broker.between = self.broker.between, None
            if between is not None:
                between()
            try:
                self.broker.check(CLAIMS, epoch)
            except FencedError:
                continue
            self.broker.write(self.plan, positions, ordered, marks)
            self.broker.step()
            return self.broker.progress(self.plan)

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        """Into the open transaction."""
        self.broker.step()
        assert topic == SOURCE
        if not self.pending:
            self.opened = self.broker.now
        self.pending.append(((letter.partition, letter.offset), letter.size))

    def commit(self, positions: Positions, ordered: int | None, marks: Marks) -> None:
        """All or nothing, unless it is fenced, refused or too late."""
        broker, size = self.broker, sum(size for _, size in self.pending)
        broker.step()
        broker.check(self.plan.id, self.epoch)
        if broker.away:
            broker.away -= 1
            raise SourceUnreachableError("the coordinator does not answer")
        if broker.stalls and self.pending:
            broker.stalls -= 1
            broker.sleep(TRANSACTION_SECONDS + 1)
        if self.pending and broker.now - self.opened > TRANSACTION_SECONDS:
            broker.begin(self.plan.id)  # Kafka ends the transaction, and fences its producer
            raise FencedError("Another process has taken over the plan.")
        if size / broker.bytes_per_second > COMMIT_SECONDS:
            broker.sleep(COMMIT_SECONDS)
            raise SlowError("too large")
        broker.sleep(size / broker.bytes_per_second)
        if bad := [place for place, _ in self.pending if place in broker.refused]:
            raise LettersRefusedError("INVALID_RECORD", "refused", {bad[0]: "INVALID_RECORD"} if self.careful else {})
        broker.records += [place for place, _ in self.pending]
        broker.write(self.plan, positions, ordered, marks)
        self.pending = []
        broker.step()

    def close(self) -> None:
        """Nothing of it remains."""
        self.pending = []


class NoJournal:
    """Takes every entry."""

    def append(self, **_entry: Any) -> None:
        """Nothing is kept."""

    def open_change(self, *_: Any) -> None:
        """Nothing was interrupted."""


@dataclass
class Machine:
    """A ledger and locks of its own."""

    broker: Broker
    folder: Path

    @property
    def ledger(self) -> Ledger:
        """Its ledger."""
        os.environ["XDG_STATE_HOME"] = str(self.folder)
        return Ledger(self.folder / "ledger")

    def handled(self, but: str | None = None) -> tuple[dict[int, Picks], dict[int, Picks]]:
        """Letters that other plans have, as this machine can tell, and those of them that were discarded."""
        view = gateway_of(self.broker.letters).cluster([TOPIC])
        it, topic_id = self.broker, view.topics[TOPIC].topic_id
        return self.ledger.handled(TOPIC, topic_id, view.cluster_id, it.commits, list(it.groups), it.progress, but=but)

    def plan(self, request: RedriveRequest) -> RedrivePlan:
        """A plan of what other plans leave."""
        from dataclasses import replace

        done, discarded = self.handled()
        asked = replace(request, done=done, discarded=discarded)
        return make_redrive_plan(asked, gateway_of(self.broker.letters), self.broker, lambda _topic: 1 << 30)

    def look(self, plan: RedrivePlan) -> RedriveNow:
        """The state for the safety checks."""
        gateway, progress = gateway_of(self.broker.letters), self.broker.progress(plan)
        return RedriveNow(
            cluster=gateway.cluster([plan.topic, SOURCE]),
            logs=gateway.logs([(plan.topic, part.partition) for part in plan.partitions]),
            settings=gateway.settings([plan.topic]),
            positions=progress.positions,
            ordered=progress.ordered,
            state=progress.state,
            refused=progress.refused,
            handled=self.handled(plan.hash)[0],
            now_ms=0.0,
            was_started=self.ledger.was_started(plan) and self.ledger.ended(plan) is None,
        )

    def run(self, plan: RedrivePlan) -> Redrive:
        """A run of a plan here."""
        it = self.broker
        pace = SendPace(plan.max_records_per_second, plan.max_bytes_per_second, clock=it.clock, sleep=it.sleep)
        return Redrive(
            plan=plan,
            letters=it,
            make_sink=lambda: ModelSink(it, plan),
            look=lambda: self.look(plan),
            topics=lambda: self.look(plan).cluster,
            journal=NoJournal(),  # type: ignore[arg-type]
            ledger=self.ledger,
            limits=RedriveLimits(retention_margin_seconds=0),
            pace=pace,
            clock=it.clock,
            sleep=it.sleep,
        )

    def end(self, plan: RedrivePlan, state: PlanState) -> PlanProgress:
        """As `RedriveCluster.end`."""
        from workbench.redrive.abandon_plan import end_plan

        sink = ModelSink(self.broker, plan)
        sink.begin()
        return end_plan(plan, state, sink, lambda: self.look(plan), was_started=self.ledger.was_started(plan))
