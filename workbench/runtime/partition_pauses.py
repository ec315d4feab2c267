"""When partitions are paused and resumed: what a task holds is bounded, in records for each partition and in bytes for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import Record, TopicPartition, record_bytes
from workbench.runtime.partition_state import PartitionState
from workbench.runtime.source import RecordSource

# A paused partition resumes when its queue is half empty, not at the first free place: a pause discards what the client has
# prefetched, so flapping would fetch the same records repeatedly.
_RESUME_FILL = 0.5
# Half of the bytes is for whoever needs them; the other half belongs to the partitions in equal parts, so that one whose events wait
# for a retry cannot keep the others from reading.
_COMMON_SHARE = 0.5
_FIRST_GUESS_BYTES = 1000.0
_MEAN_WEIGHT = 0.2


class HeldBytes:
    """Account of the bytes that a task's consumer threads hold; each thread writes its own part, any thread may read the sum."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._members: dict[str, tuple[int, int]] = {}  # bytes and partitions of each member

    def note(self, member: str, held: int, partitions: int) -> None:
        """Set a member's part."""
        self._members[member] = held, partitions

    def of(self, member: str) -> int:
        """Bytes that a member holds, as of its last look."""
        return self._members.get(member, (0, 0))[0]

    @property
    def total(self) -> int:
        """Bytes of all members."""
        return sum(held for held, _ in list(self._members.values()))

    @property
    def own_share(self) -> float:
        """Bytes that every partition may hold, whatever the others hold."""
        return (
            self.limit * (1 - _COMMON_SHARE) / max(1, sum(partitions for _, partitions in list(self._members.values())))
        )


class Flow:
    """Pauses and resumes the partitions of one consumer thread; only that thread calls it.

    A partition without held bytes is never paused for their sake: a record larger than the limit passes, alone.
    """

    def __init__(self, config: RuntimeConfig, source: RecordSource, account: HeldBytes, *, member: str) -> None:
        self._config = config
        self._source = source
        self._account = account
        self._member = member
        self._mean_bytes = _FIRST_GUESS_BYTES  # of a record

    def records(self, limit: int) -> int:
        """Number of records to ask for, so that a batch hardly exceeds the bytes that are left."""
        room = self._account.limit - self._account.total
        return max(1, min(limit, int(room / self._mean_bytes)))

    def took(self, records: Sequence[Record]) -> None:
        """Learn the size of records from a batch: from its ends, since this is done for every one."""
        if records:
            size = max(record_bytes((records[0], records[-1])))
            self._mean_bytes += _MEAN_WEIGHT * (size - self._mean_bytes)

    def pause_and_resume(self, partitions: Mapping[TopicPartition, PartitionState], *, on_hold: bool) -> None:
        """Pause what is full (on hold: everything), resume what has room again."""
        account = self._account
        account.note(self._member, sum(state.all_held_bytes for state in partitions.values()), len(partitions))
        common, share = account.total - account.limit * _COMMON_SHARE, account.own_share
        pause, resume = [], []
        for partition, state in partitions.items():
            if not state.paused and (
                on_hold or self._is_full(state) or (common >= 0 and state.all_held_bytes >= share)
            ):
                state.paused = True
                pause.append(partition)
            elif (
                state.paused
                and not on_hold
                and (
                    common < -account.limit * _COMMON_SHARE * _RESUME_FILL
                    or state.all_held_bytes <= share * _RESUME_FILL
                )
                and self._has_room(state)
            ):
                state.paused = False
                resume.append(partition)
        if pause:
            self._source.pause(pause)
        if resume:
            self._source.resume(resume)

    def _is_full(self, state: PartitionState) -> bool:
        config = self._config
        return (
            bool(state.held_back)
            or state.ended
            or state.held_events > config.carry_over_per_partition
            or state.tracker.uncommitted >= config.max_uncommitted_per_partition
        )

    def _has_room(self, state: PartitionState) -> bool:
        config = self._config
        if (
            state.held_back
            or state.ended
            or state.held_events > config.carry_over_per_partition * _RESUME_FILL
            or state.tracker.uncommitted > config.max_uncommitted_per_partition * _RESUME_FILL
        ):
            return False
        if not state.held_events and any(bound.fill() > _RESUME_FILL for bound in state.blocked_by):
            return False
        state.blocked_by.clear()
        return True
