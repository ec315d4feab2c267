"""A dead-letter topic and its targets in memory, with transactions; a sink can be killed at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from workbench.redrive.commit_marks import Mark, PlanProgress
from workbench.redrive.letter_headers import Headers, Letter
from workbench.redrive.redrive_ports import FencedError, LettersGoneError, Marks, Positions

Produced = tuple[str, int | None, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class KilledError(BaseException):
    """kill -9 at this point: nothing after it runs."""


@dataclass
class FakeCluster:
    """What survives a kill: letters, committed records, committed positions, and who is fenced.

    Attributes:
        steps_left: steps until the next kill; None: none.
    """

    letters: list[Letter]
    log_start: Mapping[int, int] = field(default_factory=dict)
    records: list[Produced] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    ordered: int | None = None
    marks: dict[int, str] = field(default_factory=dict)
    epoch: int = 0
    steps_left: int | None = None
    steps: int = 0

    def step(self) -> None:
        """One step of the process under test."""
        self.steps += 1
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise KilledError

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        """See `LetterReader`; batches of three letters."""
        left = {number: at for number, at in start.items() if at < stop[number]}
        for number, at in left.items():
            if at < self.log_start.get(number, 0):
                raise LettersGoneError(f"{number}: begins at {self.log_start[number]}")
        chosen = [
            it for it in self.letters if it.partition in left and left[it.partition] <= it.offset < stop[it.partition]
        ]
        for at in range(0, len(chosen), 3):
            self.step()
            batch = chosen[at : at + 3]
            left |= {it.partition: it.offset + 1 for it in batch}
            yield batch, dict(left)
        yield [], {number: stop[number] for number in left}


@dataclass
class FakeSink:
    """See `Sink`."""

    cluster: FakeCluster
    epoch: int = -1
    takes_at_once: bool = False
    pending: list[Produced] = field(default_factory=list)

    def begin(self, *, careful: bool = False) -> None:
        """A new epoch fences all earlier sinks."""
        self.cluster.step()
        self.cluster.epoch += 1
        self.epoch = self.cluster.epoch
        self.cluster.step()

    def progress(self) -> PlanProgress:
        """What is committed."""
        self.cluster.step()
        it = self.cluster
        marks = {number: Mark.parse(it.marks.get(number)) for number in it.positions}
        return PlanProgress(positions=dict(it.positions), ordered=it.ordered, marks=marks)

    def claim(self, positions: Positions, ordered: int | None, marks: Marks, check: Callable[[], None]) -> PlanProgress:
        """One after the other; here nobody else claims."""
        check()
        if not self.cluster.positions:
            self.commit(positions, ordered, marks)
        return self.progress()

    def _check(self) -> None:
        if self.epoch != self.cluster.epoch:
            raise FencedError("Another process has taken over the plan.")

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        """Into the open transaction."""
        self.cluster.step()
        self._check()
        self.pending.append((topic, partition, letter.key, letter.value, tuple(headers)))

    def commit(self, positions: Positions, ordered: int | None, marks: Marks) -> None:
        """All or nothing; a kill may come before or after it took effect."""
        self.cluster.step()
        self._check()
        self.cluster.records += self.pending
        self.cluster.positions |= positions
        self.cluster.marks |= marks
        if ordered is not None:
            self.cluster.ordered = ordered
        self.pending = []
        self.cluster.step()

    def close(self) -> None:
        """Nothing of it remains."""
        self.pending = []
