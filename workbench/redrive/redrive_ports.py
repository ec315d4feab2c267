"""Interface to Kafka for a redrive: what it reads, and the transactional producer that writes. The rest is tested without Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from workbench.errors import EvidenceError, GuardError
from workbench.queues.replay_port import Gateway, Quotas
from workbench.redrive.commit_marks import Place, PlanProgress
from workbench.redrive.groups_reading_targets import Readers
from workbench.redrive.letter_headers import Headers, Letter
from workbench.redrive.planfile import RedrivePlan

Positions = Mapping[int, int]  # partition to the next offset
Marks = Mapping[int, str]  # partition to the text of its commit
NO_MARKS: Marks = MappingProxyType({})


class LettersGoneError(EvidenceError):
    """Records that a reader must read are deleted.

    Attributes:
        where: topic, partition and what the client says.
    """

    def __init__(self, where: str) -> None:
        super().__init__(
            f"Records were deleted while they were read: {where}.",
            hint="Retention is deleting them. Repeat the command: it reads what is left.",
        )
        self.where = where


class LettersRefusedError(Exception):
    """The target refuses letters of the open transaction, and will refuse them again.

    Attributes:
        code: Kafka's name of the error.
        named: the letters, with their errors, as far as they are known.
    """

    def __init__(self, code: str, words: str, named: Mapping[Place, str] | None = None) -> None:
        super().__init__(words)
        self.code, self.named = code, named or {}


class SlowError(Exception):
    """The open transaction cannot end in time, although the target takes records: it was too large."""


class FencedError(GuardError):
    """A newer producer of the plan was begun, or the transaction was open for too long: the client cannot tell which."""


class LetterReader(Protocol):
    """Reads the committed letters of one topic. Joins no group, commits nothing."""

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        """Yield letters from `start` up to `stop`, each partition in order, with the positions after them.

        A partition whose last offsets have no record ends at its stop all the same. An empty list is yielded while nothing comes.

        Raises:
            LettersGoneError: if the first records of a range are deleted.
            SourceUnreachableError: if the broker does not answer in time.
        """


class Sink(Protocol):
    """Takes records in batches. After any error it must not be used again; a new one begins at `progress`."""

    takes_at_once: (
        bool  # whether `send` takes effect before `commit`; then it is committed also when the next one fails
    )

    def begin(self, *, careful: bool = False) -> None:
        """Fence every earlier sink of the same plan; what it had not committed is gone.

        Args:
            careful: find out which letters are refused, which takes longer.

        Raises:
            SourceUnreachableError: if Kafka does not answer. GuardError: if a permission is lacking.
        """

    def progress(self) -> PlanProgress:
        """What is committed, once no transaction is about to change it. Needs no `begin`, and fences nobody."""

    def claim(self, positions: Positions, ordered: int | None, marks: Marks, check: Callable[[], None]) -> PlanProgress:
        """Commit the plan's first positions, unless `check` raises; with a mark of its end, the plan is over before it has begun.

        Of all processes that claim letters of the topic at the same time, from any machine, one after the other checks and commits. If
        the plan has positions by then, they stay.

        Returns:
            What is committed now.
        """

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        """Take one record; it counts once `commit` has returned.

        Raises:
            As `commit`; GuardError if a service refuses the letter.
        """

    def commit(self, positions: Positions, ordered: int | None, marks: Marks = NO_MARKS) -> None:
        """Make the records, the positions and their marks take effect, all or none.

        A sink that cannot do that writes with the mark that the plan is given up how far the plan has come by its targets, if further.

        Raises:
            FencedError: if another process has taken over this plan, or a time-out has ended the transaction.
            LettersRefusedError: if the target refuses some records for good. SlowError: if it does not take them in time.
            GuardError: if a permission is lacking, or a target has gained partitions.
            SourceUnreachableError: if it is unknown whether they took effect; `progress` of a new sink says it.
        """

    def close(self) -> None:
        """Give up what was not committed."""


class LetterQueue(Protocol):
    """What a redrive asks of a cluster, besides its gateway. Only a sink writes.

    All methods raise `SourceUnreachableError` if the cluster does not answer, unless they say otherwise.

    Attributes:
        promise: what a plan must say of records that may be seen twice; None: none may.
    """

    promise: str | None

    @property
    def gateway(self) -> Gateway:
        """What a replay reads too."""

    def letters(self, topic: str) -> LetterReader:
        """Reader of a topic."""

    def limit_of(self, topic: str) -> int:
        """Largest record of a topic in bytes; the queue's default without the permission to ask."""

    def position_kept_seconds(self, plan: RedrivePlan) -> float | None:
        """How long the position of a plan that nobody applies is kept, or may be lost without harm (inf); None if it is not told."""

    def groups(self) -> list[str]:
        """Names of all consumer groups, with and without members."""

    def readers(self, topics: Sequence[str]) -> Readers | None:
        """Committed offsets on some topics, by group, without those of redrive plans; None if it cannot be told."""

    def lacking(self, topic: str, targets: Sequence[str], name: str) -> tuple[str, ...]:
        """Permissions that the brokers say these credentials lack: to read the topic, to write the targets, and to keep positions.

        Args:
            name: of the plan in the queue; `*` at its end for any plan's.
        """

    def untold(self) -> str | None:
        """What `lacking` cannot tell, in words; None if there is nothing."""

    def quotas(self) -> Quotas | None:
        """Limits of this user; None if they may not be asked."""

    def sink(self, plan: RedrivePlan) -> Sink:
        """Takes the records of a plan, in transactions."""

    def positions(self, plan: RedrivePlan) -> Sink:
        """Keeps only the positions of a plan whose records go elsewhere."""


def letters_at(reader: LetterReader, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Letter]:
    """Read the letters at some places (partition, offset), in one pass over the ranges that hold them; missing ones are left out."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for number, offset in places:
        low[number] = min(offset, low.get(number, offset))
        high[number] = max(offset + 1, high.get(number, 0))
    wanted, found = set(places), {}
    for batch, _ in reader.read(low, high):
        for letter in batch:
            if (letter.partition, letter.offset) in wanted:
                found[letter.partition, letter.offset] = letter
    return found
