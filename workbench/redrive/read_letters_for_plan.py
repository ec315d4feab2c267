"""Reading of a dead-letter topic for a plan: one pass, bounded memory per letter."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from workbench.queues.replay_port import TopicSettings
from workbench.redrive.key_order import NONE, Columns
from workbench.redrive.letter_headers import UNREADABLE, Letter, Origin, Reader
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.planfile import Dedup, Left, To
from workbench.redrive.redrive_ports import LetterReader, Positions
from workbench.redrive.selection import Selection

_NONE = Picks((), ())
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Finds the target of a letter; used by the plan and by `apply`, so both agree.

    Attributes:
        kind, topic, fallback: see `Destination`.
        letters_topic: the dead-letter topic, which is never a target.
    """

    kind: To
    letters_topic: str
    topic: str | None = None
    fallback: str | None = None

    def target(self, origin: Origin) -> str | None:
        """Topic for a letter; an empty name for HTTP; None without one."""
        if self.kind is To.HTTP:
            return ""
        topic = self.topic if self.kind is To.TOPIC else origin.topic or self.fallback
        return None if topic in _INTERNAL or topic == self.letters_topic else topic


@dataclass(slots=True)
class Wanted:
    """Letters that a plan takes: one row each, in columns, and what stays.

    Attributes:
        size, checksum, target, error, gave_up: of each row; the last three are places in `targets`, `error_names` and `group_names`.
        left: number of letters that stay, by reason.
    """

    columns: Columns
    size: Any
    checksum: Any
    target: Any
    targets: list[str]
    left: Counter[str]
    error: Any
    error_names: list[str]
    gave_up: Any
    group_names: list[str]
    source_names: list[str]


@dataclass(slots=True)
class Rules:
    """What decides about one letter.

    Attributes:
        done, discarded: letters that earlier plans have handled, and those of them that they have discarded.
        limits: largest record of a target topic in bytes; a topic that is not there is no target.
        settings: of a target topic; it refuses records that do not fit.
        has_original_times: whether the records get the timestamps of their source records.
    """

    reader: Reader
    route: Route
    selection: Selection
    dedup: Dedup
    max_rounds: int
    done: Mapping[int, Picks]
    discarded: Mapping[int, Picks]
    limits: Callable[[str], int | None]
    settings: Callable[[str], TopicSettings] = lambda _topic: TopicSettings()
    has_original_times: bool = False
    now_ms: float = 0.0


@dataclass(slots=True)
class _Names:
    """Numbers for names, in the order of their first use."""

    names: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def letter_checksum(target: str, letter: Letter) -> int:
    """CRC-32 of target, key and value; a missing key differs from an empty one."""
    crc = zlib.crc32(target.encode())
    for part in (letter.key, letter.value):
        crc = zlib.crc32(b"\0" if part is None else b"\1", crc)
        if part:
            crc = zlib.crc32(part, crc)
    return crc


def survey(letters: LetterReader, start: Positions, stop: Positions, rules: Rules) -> Wanted:
    """Read all letters of the ranges, and keep those that are selected and can be redriven.

    Raises:
        LettersGoneError, SourceUnreachableError: as the reader.
    """
    numbers: dict[str, array[int]] = {name: array("q") for name in Columns.__slots__}
    size, checksum, target, error, gave_up = array("q"), array("q"), array("q"), array("q"), array("q")
    targets, errors, sources, groups = _Names(), _Names(), _Names(), _Names()
    left: Counter[str] = Counter()
    add = [numbers[name].append for name in ("partition", "offset", "timestamp", "key", "source")]
    add += [numbers[name].append for name in ("source_partition", "source_offset", "source_time", "content")]
    add += [numbers[name].append for name in ("round", "handled")]
    test, by_content = rules.selection.test(), rules.dedup is Dedup.CONTENT
    for batch, _ in letters.read(start, stop):
        for letter in batch:
            is_handled = letter.offset in rules.done.get(letter.partition, _NONE)
            taken = _look(letter, rules, test, is_handled=is_handled)
            if isinstance(taken, Left):
                left[taken.value] += 1
            found = _handled(letter, rules) if is_handled else taken
            if found is None or isinstance(found, Left):
                continue
            origin, topic, bytes_ = found
            crc = letter_checksum(topic, letter)
            named = origin.topic is not None and origin.partition is not None and origin.offset is not None
            row = (
                letter.partition,
                letter.offset,
                letter.timestamp_ms,
                NONE if letter.key is None else _hash(topic.encode(), letter.key),
                sources.of(origin.topic) if named and origin.topic is not None else NONE,
                origin.partition if named and origin.partition is not None else NONE,
                origin.offset if named and origin.offset is not None else NONE,
                origin.timestamp_ms if origin.timestamp_ms is not None else NONE,
                _hash(topic.encode(), letter.key, letter.value) if by_content else crc,
                origin.round,
                int(is_handled),
            )
            for append, value in zip(add, row, strict=True):
                append(value)
            size.append(bytes_)
            checksum.append(crc)
            target.append(targets.of(topic))
            error.append(errors.of(origin.error))
            gave_up.append(NONE if origin.group is None else groups.of(origin.group))
    columns = Columns(**{name: np.frombuffer(values, np.int64) for name, values in numbers.items()})
    by_place = np.lexsort((columns.offset, columns.partition))
    return Wanted(
        columns=columns.where(by_place),
        size=np.frombuffer(size, np.int64)[by_place],
        checksum=np.frombuffer(checksum, np.int64)[by_place],
        target=np.frombuffer(target, np.int64)[by_place],
        targets=list(targets.names),
        left=left,
        error=np.frombuffer(error, np.int64)[by_place],
        error_names=list(errors.names),
        gave_up=np.frombuffer(gave_up, np.int64)[by_place],
        group_names=list(groups.names),
        source_names=list(sources.names),
    )


def _look(letter: Letter, rules: Rules, test: Any, *, is_handled: bool) -> Left | tuple[Origin, str, int]:
    """Origin, target and size of a letter that can be redriven, or why it stays."""
    if letter.headers is UNREADABLE:
        return Left.UNREADABLE
    origin = rules.reader.origin(letter.headers)
    if not test(letter, origin):
        return Left.NOT_SELECTED
    if is_handled:
        return Left.ALREADY
    if origin.round >= rules.max_rounds:
        return Left.POISON
    if origin.left_out:
        return Left.LEFT_OUT
    topic = rules.route.target(origin)
    if topic is None:
        return Left.NO_SOURCE if origin.topic is None and rules.route.kind is To.SOURCE else Left.NO_TARGET
    size = letter.size
    if rules.route.kind is not To.HTTP:
        limit = rules.limits(topic)
        if limit is None:
            return Left.NO_TARGET
        if size > limit:
            return Left.TOO_LARGE
        settings = rules.settings(topic)
        if settings.compacted and letter.key is None:
            return Left.NO_KEY
        if rules.has_original_times and not _is_in_time(origin.timestamp_ms, letter, settings, rules.now_ms):
            return Left.WRONG_TIME
    return origin, topic, size


def _handled(letter: Letter, rules: Rules) -> tuple[Origin, str, int] | None:
    """A letter of an earlier plan, whatever is selected now: its record may have a second one. None if that cannot be told.

    With the same content alone they may be two records. Who discards one of two letters has not said what becomes of the record.
    """
    is_discarded = letter.offset in rules.discarded.get(letter.partition, _NONE)
    if rules.dedup is not Dedup.ORIGIN or letter.headers is UNREADABLE or is_discarded:
        return None
    origin = rules.reader.origin(letter.headers)
    topic = rules.route.target(origin)
    return (origin, topic, 0) if topic is not None else None


def _is_in_time(original: int | None, letter: Letter, settings: TopicSettings, now_ms: float) -> bool:
    at = original if original is not None else max(0, letter.timestamp_ms)
    before, after = settings.timestamp_before_ms, settings.timestamp_after_ms
    return (before is None or now_ms - at <= before) and (after is None or at - now_ms <= after)


def _hash(*parts: bytes | None) -> int:
    """A number from 0 to 2^63, for values that may be compared and are too long to be kept."""
    state = blake2b(digest_size=8)
    for part in parts:
        state.update(b"\0" if part is None else len(part).to_bytes(4, "big") + b"\1" + part)
    return int.from_bytes(state.digest(), "big") >> 1
