"""Verification of a redrive: was each planned letter produced once, with its content, and was it handled since?

The evidence is the target topics themselves: every record that a redrive produces names its plan and its letter in two headers.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from workbench.errors import EvidenceError, SourceUnreachableError, UsageError
from workbench.humanize import count, counted, listed, plural
from workbench.queues.replay_port import Gateway
from workbench.queues.snapshot_views import Partition
from workbench.redrive.commit_marks import Mark, Place, PlanProgress, all_letters
from workbench.redrive.every_log_must_answer import whole_logs
from workbench.redrive.later_letters import TopicFate, later_letters
from workbench.redrive.letter_headers import LETTER_HEADER, PLAN_HEADER, UNREADABLE, Letter, Origin, Reader
from workbench.redrive.planfile import RedrivePlan, To
from workbench.redrive.read_letters_for_plan import letter_checksum
from workbench.redrive.receipt import places_of, refused_words
from workbench.redrive.redrive_ports import LetterReader, LettersGoneError

_MOST_NAMED = 1000
_CRC_BITS = 32
# A transaction that is committed can be read when its markers are written, some milliseconds later; on a busy broker, seconds.
_SETTLE_SECONDS = 15.0
_LOOK_SECONDS = 0.1


class RedriveVerdict(StrEnum):
    """Whether every planned letter was produced once."""

    VERIFIED = "verified"
    INCOMPLETE = "incomplete"
    CANNOT_TELL = "cannot_tell"


@dataclass(slots=True, kw_only=True)
class RedriveCheck:
    """What the target topics say.

    Attributes:
        missing: letters (partition, offset) without a record; doubled: with more than one of the same topic and content; unplanned:
            named by a record of the plan, and not in it.
        carried: records that name a letter, and have another topic or content than its record: of consumers that pass headers on.
        refused: letters that were left out because the target refuses them, with Kafka's name of the error; not among the missing.
        content_differs: partitions of the dead-letter topic whose records differ from their letters.
        gone: offsets of the targets that were deleted since the plan, by partition.
        compacted: targets in which later records of a key may have replaced those of the plan.
        open: offsets of the targets behind a transaction that is still open, by partition: these cannot be read yet.
        came_back: letters of records that were dead-lettered again, by error.
        letters_gone: offsets behind the plan that were deleted from the dead-letter topic: `came_back` may lack some.
        letters_topic: what became of the dead-letter topic since the plan: `came_back` may lack some; None: it is the same.
        processed: by group, number of the records below its committed offsets.
    """

    plan: str
    planned: int
    produced: int = 0
    missing: list[Place] = field(default_factory=list)
    refused: dict[Place, str] = field(default_factory=dict)
    doubled: list[tuple[int, int]] = field(default_factory=list)
    unplanned: list[tuple[int, int]] = field(default_factory=list)
    carried: int = 0
    content_differs: list[int] = field(default_factory=list)
    gone: dict[Partition, int] = field(default_factory=dict)
    compacted: list[str] = field(default_factory=list)
    open: dict[Partition, int] = field(default_factory=dict)
    came_back: dict[str, int] = field(default_factory=dict)
    letters_gone: int = 0
    letters_topic: TopicFate | None = None
    processed: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> RedriveVerdict:
        """Missing records count only where nothing was deleted, and everything can be read."""
        if self.doubled or self.unplanned or self.content_differs or self.refused:
            return RedriveVerdict.INCOMPLETE
        if self.missing:
            is_hidden = self.gone or self.open or self.compacted
            return RedriveVerdict.CANNOT_TELL if is_hidden else RedriveVerdict.INCOMPLETE
        return RedriveVerdict.VERIFIED

    def sentences(self) -> list[str]:
        """The result in words, the verdict first."""
        head = {
            RedriveVerdict.VERIFIED: f"Every planned letter was produced once: {count(self.produced)} of {count(self.planned)}.",
            RedriveVerdict.INCOMPLETE: f"Not every planned letter was produced exactly once ({count(self.planned)} planned).",
            RedriveVerdict.CANNOT_TELL: f"Cannot tell: {counted(len(self.missing), 'letter has', 'letters have')} no record, and "
            + self._why_hidden(),
        }[self.verdict]
        found = [head]
        if self.refused:
            found.append(refused_words(places_of(self.refused)))
        for what, places in (("missing", self.missing), ("doubled", self.doubled), ("not planned", self.unplanned)):
            if places:
                found.append(f"{plural(len(places), 'letter')} {what}: {listed([f'{p}:{o}' for p, o in places])}.")
        if self.doubled:
            found.append(
                "Doubled: produced twice; or a consumer has sent the record to its topic again, with all headers."
            )
        if self.carried:
            found.append(
                f"{plural(self.carried, 'record names', 'records name')} a letter in another topic, or with another content: by "
                "consumers that pass headers on. They do not count."
            )
        if self.content_differs:
            found.append(f"The content differs from the letters of partition {listed(self.content_differs)}.")
        if self.gone:
            places_gone = [f"{topic}-{number} ({count(n)})" for (topic, number), n in sorted(self.gone.items())]
            found.append(f"Deleted since the plan: {listed(places_gone)}.")
        if self.open:
            hidden = [f"{topic}-{number} ({count(n)})" for (topic, number), n in sorted(self.open.items())]
            found.append(f"Behind an open transaction, and not to be read yet: {listed(hidden)}. Verify again later.")
        for group, number in self.processed.items():
            found.append(f"{group} has committed past {count(number)} of the {counted(self.produced, 'record')}.")
        if self.came_back:
            errors = listed([f"{error} ({number:,})" for error, number in self.came_back.items()])
            found.append(
                f"{plural(sum(self.came_back.values()), 'record was', 'records were')} dead-lettered again: {errors}."
            )
        if self.letters_gone:
            deleted = plural(self.letters_gone, "offset of later letters was", "offsets of later letters were")
            found.append(f"{deleted} deleted: whether more records came back cannot be told.")
        if self.letters_topic is not None:
            since = f"The dead-letter topic was {self.letters_topic} since the plan was made"
            before = " before" if self.letters_topic is TopicFate.RECREATED else ""
            found.append(f"{since}: whether more records came back{before} cannot be told.")
        return found

    def _why_hidden(self) -> str:
        if self.gone:
            return "records were deleted."
        if self.open:
            return "an open transaction hides some."
        return f"the clean-up of {listed(self.compacted)} keeps only the last record of a key."

    def document(self) -> dict[str, Any]:
        """As plain values; long lists are cut, their lengths are not."""
        names = (
            "plan",
            "planned",
            "produced",
            "carried",
            "content_differs",
            "came_back",
            "letters_gone",
            "letters_topic",
            "processed",
        )
        lists = {name: getattr(self, name) for name in ("missing", "doubled", "unplanned")}
        return {
            "schema": "workbench.redrive-check/1",
            "verdict": self.verdict.value,
            **{name: getattr(self, name) for name in names},
            **{name: [f"{p}:{o}" for p, o in places[:_MOST_NAMED]] for name, places in lists.items()},
            **{f"{name}_count": len(places) for name, places in lists.items()},
            "refused": dict(list(places_of(self.refused).items())[:_MOST_NAMED]),
            "refused_count": len(self.refused),
            "compacted": self.compacted,
            "gone": {f"{topic}-{number}": offsets for (topic, number), offsets in sorted(self.gone.items())},
            "open": {f"{topic}-{number}": offsets for (topic, number), offsets in sorted(self.open.items())},
        }


def verify_redrive(
    plan: RedrivePlan,
    gateway: Gateway,
    letters: Callable[[str], LetterReader],
    *,
    groups: Iterable[str] = (),
    refused: Mapping[Place, str] | None = None,
) -> RedriveCheck:
    """Read the target topics from where they ended when the plan was made, and the letters that came after the plan.

    Args:
        letters: reader of a topic.
        refused: letters that a ledger says were left out; Kafka may have forgotten it.
        groups: consumer groups of the targets, to see how far they have processed.

    Raises:
        UsageError: for a plan to a REST service, which leaves no records.
        SourceUnreachableError: if Kafka does not answer. EvidenceError: if a target was recreated.
    """
    if plan.destination.kind is To.HTTP:
        raise UsageError(
            "A redrive by HTTP leaves no records to verify.", hint="Compare the keys with the service's own log."
        )
    left = plan.planned()
    check = RedriveCheck(plan=plan.hash, planned=plan.letters)
    seen: dict[int, dict[int, int]] = {}  # time and checksum of the earliest record of each letter, in one number
    produced: dict[Partition, array[int]] = {}
    for topic, start, stop in _ranges(plan, gateway, check):
        for batch, _ in _until_gone(letters(topic).read(start, stop), gateway, topic, start, check.gone):
            for record in batch:
                headers = dict(record.headers) if record.headers is not UNREADABLE else {}
                if headers.get(PLAN_HEADER) != plan.id.encode():
                    continue
                letter = _letter(headers.get(LETTER_HEADER))
                if letter is None:
                    check.unplanned.append((-1, record.offset))
                    continue
                content = letter_checksum(topic, record)
                one = (max(0, record.timestamp_ms) << _CRC_BITS) + content
                if letter[1] in left.get(letter[0], ()):
                    left[letter[0]].discard(letter[1])
                    check.produced += 1
                    seen.setdefault(letter[0], {})[letter[1]] = one
                    produced.setdefault((topic, record.partition), array("q")).append(record.offset)
                elif (first := seen.get(letter[0], {}).get(letter[1])) is not None:
                    if first % (1 << _CRC_BITS) == content:
                        check.doubled.append(letter)
                    else:  # whoever passes headers on has read the record that the redrive has made
                        check.carried += 1
                        seen[letter[0]][letter[1]] = min(first, one)
                else:
                    check.unplanned.append(letter)
    missing = sorted((number, offset) for number, some in left.items() for offset in some)
    known = {**(refused or {}), **(refused_of(plan, gateway) if missing else {})}
    check.refused = {place: known[place] for place in missing if place in known}
    check.missing = [place for place in missing if place not in known]
    if check.missing:
        targets = [it.topic for it in plan.targets]
        settings = gateway.settings(targets)
        check.compacted = [name for name in targets if name in settings and settings[name].compacted]
    short = {number for number, _ in missing}
    check.content_differs = [
        part.partition
        for part in plan.partitions
        if part.partition not in short
        and sum(one % (1 << _CRC_BITS) for one in seen.get(part.partition, {}).values()) != part.checksum
    ]
    for group in groups:
        commits = gateway.commits(group)
        below = (bisect_left(offsets, commits.get(place, 0)) for place, offsets in produced.items())
        check.processed[group] = sum(below)
    _look_for_returns(plan, gateway, letters(plan.topic), check, produced)
    return check


def refused_of(plan: RedrivePlan, gateway: Gateway) -> dict[Place, str]:
    """Letters of the plan that were left out, by the commits of its group, with Kafka's name of the error."""
    # Without the right to see the group they count as missing: there is no reason to tell then.
    with suppress(SourceUnreachableError):
        return PlanProgress(marks=marks_in(plan, gateway.notes(plan.id))).refused
    return {}


def marks_in(plan: RedrivePlan, notes: Mapping[Partition, str]) -> dict[int, Mark | None]:
    """Marks among the texts of a group's commits."""
    return {number: Mark.parse(text) for (topic, number), text in notes.items() if topic == plan.topic}


def _until_gone(
    batches: Iterator[tuple[list[Letter], Mapping[int, int]]],
    gateway: Gateway,
    topic: str,
    start: Mapping[int, int],
    gone: dict[Partition, int],
) -> Iterator[tuple[list[Letter], Mapping[int, int]]]:
    """Batches of records, up to where retention deletes them meanwhile; `gone` gets the deleted offsets then."""
    try:
        yield from batches
        failure = None
    except LettersGoneError as error:
        failure = error
    starts = gateway.logs([(topic, number) for number in start]).starts  # not every reader notices
    found = {key: first - start[key[1]] for key, first in starts.items() if first > start[key[1]]}
    if failure is not None and not found:
        raise failure
    gone |= {key: number + gone.get(key, 0) for key, number in found.items()}


def _ranges(
    plan: RedrivePlan, gateway: Gateway, check: RedriveCheck
) -> list[tuple[str, dict[int, int], dict[int, int]]]:
    """Topic, start and stop of what must be read; what was deleted goes to `check.gone`, what is not to be read yet to `check.open`."""
    found, deadline = [], time.monotonic() + _SETTLE_SECONDS
    view = gateway.cluster([it.topic for it in plan.targets])
    for target in plan.targets:
        topic, fate = view.topics.get(target.topic), None
        if topic is None and target.topic not in view.denied:  # one that may not be described is refused below
            fate = "deleted"
        elif topic is not None and topic.is_remade(target.topic_id):
            fate = "deleted and recreated"
        if fate is not None:
            raise EvidenceError(
                f"The topic {target.topic!r} was {fate} since the plan was made, and the records of the plan with it.",
                hint="What was produced: workbench dlq follow PLAN --once.",
            )
    for target in plan.targets:
        keys = [(target.topic, number) for number in range(len(target.ends))]
        logs = whole_logs(gateway, keys, stable=True)
        ends = logs.ends  # what was produced until now
        while _hidden(logs.stable_ends, ends) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            logs = whole_logs(gateway, keys, stable=True)
        check.open.update(_hidden(logs.stable_ends, ends))
        start, stop = {}, {}
        for number, end in enumerate(target.ends):
            key = (target.topic, number)
            first = logs.starts[key]
            if first > end:
                check.gone[key] = first - end
            start[number] = max(end, first)
            stop[number] = max(start[number], logs.stable_ends.get(key, logs.ends[key]))
        found.append((target.topic, start, stop))
    return found


def _hidden(stable_ends: Mapping[Partition, int], ends: Mapping[Partition, int]) -> dict[Partition, int]:
    """Offsets below these ends that are behind an open transaction."""
    return {key: end - stable_ends[key] for key, end in ends.items() if key in stable_ends and stable_ends[key] < end}


def _look_for_returns(
    plan: RedrivePlan,
    gateway: Gateway,
    letters: LetterReader,
    check: RedriveCheck,
    produced: Mapping[Partition, array[int]],
) -> None:
    """Letters after the plan that were made from its records: by our header, or by their origin."""
    later = later_letters(plan, gateway)
    check.letters_topic = later.fate
    logs = whole_logs(gateway, [(plan.topic, number) for number in later.starts], stable=True)
    start, stop, gone = {}, {}, dict[Partition, int]()
    for number, at in later.starts.items():
        key = (plan.topic, number)
        start[number] = max(at, logs.starts[key])
        if start[number] > at and (at or logs.back is None):  # a partition that was added begins at 0, but of a Pulsar
            gone[key] = start[number] - at
        stop[number] = max(start[number], logs.stable_ends.get(key, logs.ends[key]))
    reader, found = Reader(plan.headers), dict[str, int]()
    for batch, _ in _until_gone(letters.read(start, stop), gateway, plan.topic, start, gone):
        for letter in batch:
            if letter.headers is UNREADABLE:
                continue
            origin = reader.origin(letter.headers)
            by_header = dict(letter.headers).get(PLAN_HEADER) == plan.id.encode()
            if by_header or _is_among(produced, origin):
                found[origin.error] = found.get(origin.error, 0) + 1
    check.letters_gone = sum(gone.values())
    check.came_back = dict(sorted(found.items(), key=lambda item: -item[1]))


def _is_among(produced: Mapping[Partition, array[int]], origin: Origin) -> bool:
    """Whether a letter was made from one of the records, by its origin; their offsets are in order."""
    if origin.topic is None or origin.partition is None or origin.offset is None:
        return False
    offsets = produced.get((origin.topic, origin.partition), array("q"))
    at = bisect_left(offsets, origin.offset)
    return at < len(offsets) and offsets[at] == origin.offset


def _letter(value: bytes | None) -> tuple[int, int] | None:
    number, colon, offset = (value or b"")[:40].partition(b":")
    return (int(number), int(offset)) if colon and number.isdigit() and offset.isdigit() else None


def produced_of(plan: RedrivePlan, positions: Mapping[int, int], ordered: int, refused: Iterable[Place]) -> int:
    """Number of planned letters that were produced, by the committed positions; those that were left out do not count."""
    passed = all_letters(plan, below=positions, ordered=ordered)
    left_out = sum(offset in passed[number] for number, offset in refused if number in passed)
    return sum(map(len, passed.values())) - left_out
