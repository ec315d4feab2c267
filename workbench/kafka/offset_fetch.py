"""Commits of groups, read by our own requests: one to find the coordinators of a thousand groups, one for the commits of a hundred.

Brokers before Kafka 3.0 get a request for each group, without a wait between them.

librdkafka (2.16) ends the process with a segmentation fault if a coordinator that has just moved answers an admin client's request for
commits with NOT_COORDINATOR: it looks for the client's own group, and an admin client has none. That is the moment of a lost broker,
in which a snapshot or a replay must not lose its process. It also needs a request per group.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workbench.background import in_background
from workbench.kafka.group_answers import GROUP_DENIED, error_text
from workbench.kafka.groups import (
    LOADING,
    NotListedError,
    first_to_answer,
    own_security,
)
from workbench.kafka.wire import Address, Api, WireAnswer, WireError, addresses, array, c_text, text
from workbench.kafka.wire_tls_and_login import Security, logged_in

FIND = Api("FindCoordinator", 10, 3, 4)
_FETCH = Api("OffsetFetch", 9, 7, 8)
# The first versions that take several groups.
_FIND_SEVERAL, _FETCH_SEVERAL = 4, 8
_FIND_BATCH, _FETCH_BATCH = 1_000, 100  # groups of one request
_GROUP, _TRANSACTION = b"\x00", b"\x01"  # type of the coordinator
_ALL_TOPICS = b"\x00"  # a null array
# Whether the offset of a partition that an open transaction is about to change is refused, or told as it was before.
_ANY_STATE, _STABLE = b"\x00", b"\x01"
_UNSTABLE = 88  # UNSTABLE_OFFSET_COMMIT
_ABSENT = 69  # GROUP_ID_NOT_FOUND
_TRANSACTION_DENIED = 53  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_PAUSE_SECONDS = 0.2
_HEAD = struct.Struct(">iqi")  # partition, offset, leader epoch
_NO_ANSWER = "no answer in time"

Commit = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How long to wait; all but the last are monotonic times.

    Attributes:
        deadline: everything ends by then.
        moved_until: until then a coordinator that moves or is loading is looked for, and asked, again.
        lost_until: until then so is one that does not answer.
        silence_seconds: for one answer.
    """

    deadline: float
    moved_until: float
    lost_until: float
    silence_seconds: float

    @classmethod
    def until(cls, deadline: float, *, silence_seconds: float) -> FetchLimits:
        """All of it until one deadline."""
        return cls(deadline=deadline, moved_until=deadline, lost_until=deadline, silence_seconds=silence_seconds)


@dataclass(slots=True, kw_only=True)
class Commits:
    """What the coordinators tell.

    Attributes:
        offsets: (group, topic, partition) to offset; None for a partition without a commit. A group that does not exist has none.
        denied: groups that may not be described.
        missing: groups without an answer, and why.
        moved: those of them whose coordinator moves or is loading, or whose commits an open transaction is about to change.
        lost: those of them whose coordinator does not answer.
        errors: (group, topic, partition) whose commit cannot be read, and why.
        metadata: (group, topic, partition) to the text that the consumer stored with its commit, byte by byte, where there is one.
        requests: number of requests sent.
    """

    offsets: dict[Commit, int | None] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    errors: dict[Commit, str] = field(default_factory=dict)
    metadata: dict[Commit, bytes] = field(default_factory=dict)
    requests: int = 0

    def add(self, other: Commits) -> None:
        """Add what another coordinator told."""
        self.offsets |= other.offsets
        self.denied += other.denied
        self.missing |= other.missing
        self.moved |= other.moved
        self.lost |= other.lost
        self.errors |= other.errors
        self.metadata |= other.metadata
        self.requests += other.requests

    def notes(self) -> dict[Commit, str]:
        """The metadata as text."""
        return {commit: words for commit, raw in self.metadata.items() if (words := c_text(raw))}

    def refuse(self, group: str, code: int) -> None:
        """Note a broker's error for a group."""
        if code in (GROUP_DENIED, _TRANSACTION_DENIED):
            self.denied.append(group)
            return
        self.missing[group] = error_text(code)
        if code in LOADING or code == _UNSTABLE:
            self.moved.add(group)

    def again(self, limits: FetchLimits, now: float) -> list[str]:
        """Take out the groups that are to be asked for once more."""
        names = [*(self.moved if now < limits.moved_until else ()), *(self.lost if now < limits.lost_until else ())]
        for name in names:
            del self.missing[name]
        self.moved -= set(names)
        self.lost -= set(names)
        return names

    def lose(self, groups: Iterable[str], why: str) -> None:
        """Note groups whose coordinator does not answer."""
        names = list(groups)
        self.missing |= dict.fromkeys(names, why)
        self.lost |= set(names)


def read_commits(
    bootstrap: str,
    properties: Mapping[str, Any],
    groups: Sequence[str],
    limits: FetchLimits,
    *,
    silent: Collection[int] = (),
    heard: Callable[[], None] = lambda: None,
    is_stable: bool = False,
) -> Commits:
    """All committed offsets of some groups.

    Args:
        bootstrap, properties: as for librdkafka.
        limits: of the time.
        silent: brokers that are known not to answer; they are not asked.
        heard: called after each answer.
        is_stable: wait for open transactions that are about to change them.

    Raises:
        NotListedError: if the settings have a property, or the brokers a version, that this cannot serve: ask librdkafka.
    """
    return _Asked(addresses(bootstrap), own_security(properties), limits, frozenset(silent), heard, is_stable).all_of(
        groups
    )


def find_coordinator(bootstrap: str, properties: Mapping[str, Any], group: str, limits: FetchLimits) -> Address:
    """Address of the broker that has a group.

    Raises:
        NotListedError: as `read_commits`. WireError: if no broker tells it.
    """
    asked = _Asked(addresses(bootstrap), own_security(properties), limits, frozenset(), lambda: None, is_stable=False)
    found = Commits()
    place = asked._coordinators([group], limits.silence_seconds, found).get(group)
    if place is None:
        raise WireError(found.missing.get(group, error_text(GROUP_DENIED)))
    return place.address


def denied_transactions(
    bootstrap: str, properties: Mapping[str, Any], names: Sequence[str], limits: FetchLimits
) -> list[str]:
    """Transactional ids of which the brokers say that these credentials may not even see them; each is only looked for.

    Raises:
        NotListedError: as `read_commits`.
    """
    security = own_security(properties)
    asked = _Asked(
        addresses(bootstrap), security, limits, frozenset(), lambda: None, is_stable=False, kind=_TRANSACTION
    )
    found = Commits()
    asked._coordinators(names, limits.silence_seconds, found)
    return found.denied


class _Place(NamedTuple):
    number: int
    address: Address


@dataclass(slots=True)
class _Asked:
    servers: list[Address]
    security: Security
    limits: FetchLimits
    silent: frozenset[int]
    heard: Callable[[], None]
    is_stable: bool
    kind: bytes = _GROUP  # of the coordinators

    def all_of(self, groups: Sequence[str]) -> Commits:
        found, left = Commits(), list(groups)
        silence = self.limits.silence_seconds
        # Why it did not work while there were answers says more than that the last one did not come in time.
        told: dict[str, str] = {}
        while left:
            found.add(self._once(left, silence))
            told |= {name: found.missing[name] for name in found.moved}
            left = found.again(self.limits, time.monotonic() + _PAUSE_SECONDS)
            if left:
                silence *= 2  # the cluster may only be slow
                time.sleep(_PAUSE_SECONDS)
        found.missing |= {name: told[name] for name in found.lost & told.keys()}
        return found

    def _once(self, groups: Sequence[str], silence: float) -> Commits:
        found = Commits()
        owned: dict[_Place, list[str]] = {}
        for name, place in self._coordinators(groups, silence, found).items():
            owned.setdefault(place, []).append(name)
        asked = []
        for place, names in owned.items():
            if place.number in self.silent:
                found.lose(names, f"its coordinator, broker {place.number}, does not answer")
            else:
                asked.append(in_background(lambda place=place, names=names: self._fetch(place, names, silence)))  # type: ignore[misc]
        for future in asked:
            found.add(future.result())
        return found

    def _coordinators(self, groups: Sequence[str], silence: float, found: Commits) -> dict[str, _Place]:
        """Coordinators as the first server that answers knows them; refusals go to `found`."""
        failed: dict[Address, str] = {}

        def ask(server: Address, limit: float) -> tuple[dict[str, _Place], Commits]:
            places: dict[str, _Place] = {}
            refused = Commits()
            with logged_in(server, self.security, self.limits.deadline, silence=limit) as wire:
                try:
                    if not wire.has(FIND) or not wire.has(_FETCH):
                        raise NotListedError("these brokers are older than Kafka 2.5")
                    version = wire.version(FIND)
                    for each in _batches(groups, _FIND_BATCH, of_one=version < _FIND_SEVERAL):
                        answers = wire.ask_each(FIND, [_find(version, names, self.kind) for names in each])
                        for names, answer in zip(each, answers, strict=True):
                            self.heard()
                            _sort(names, parse_coordinators(answer, names, version), places, refused)
                finally:
                    found.requests += wire.requests
            return places, refused

        told = first_to_answer(self.servers, silence, ask, failed)
        self.servers.sort(key=failed.__contains__)  # the next time, ask the others first
        if told is None:
            found.lose(
                groups, "; ".join(f"{host}:{port}: {words}" for (host, port), words in failed.items()) or "no address"
            )
            return {}
        places, refused = told
        found.add(refused)
        return places

    def _fetch(self, place: _Place, groups: Sequence[str], silence: float) -> Commits:
        found = Commits()
        left = list(groups)
        state = _STABLE if self.is_stable else _ANY_STATE
        try:
            with logged_in(place.address, self.security, self.limits.deadline, silence=silence) as wire:
                try:
                    version = wire.version(_FETCH)
                    for each in _batches(groups, _FETCH_BATCH, of_one=version < _FETCH_SEVERAL):
                        answers = wire.ask_each(_FETCH, [_all_of(version, names) + state for names in each])
                        for names, answer in zip(each, answers, strict=True):
                            parse_commits(answer, names, version, found)
                            left = left[len(names) :]
                            self.heard()
                finally:
                    found.requests += wire.requests
        except (OSError, WireError) as error:
            host, port = place.address
            found.lose(left, f"broker {place.number} ({host}:{port}): {str(error) or _NO_ANSWER}")
        return found


def _find(version: int, names: Sequence[str], kind: bytes) -> bytes:
    return kind + array(map(text, names)) if version >= _FIND_SEVERAL else text(names[0]) + kind


def _all_of(version: int, groups: Sequence[str]) -> bytes:
    if version < _FETCH_SEVERAL:
        return text(groups[0]) + _ALL_TOPICS
    return array(text(name) + _ALL_TOPICS + b"\x00" for name in groups)


def _batches(groups: Sequence[str], size: int, *, of_one: bool) -> Iterable[Sequence[Sequence[str]]]:
    """What is asked for at a time: one request for all of a batch, or one for each group of it."""
    for at in range(0, len(groups), size):
        names = groups[at : at + size]
        yield [[name] for name in names] if of_one else [names]


def _sort(
    names: Iterable[str], told: Mapping[str, tuple[int, _Place]], places: dict[str, _Place], refused: Commits
) -> None:
    for name in names:
        code, place = told.get(name, (-1, None))
        if place is None:
            refused.missing[name] = "the broker tells no coordinator"
        elif code:
            refused.refuse(name, code)
        elif not 0 < place.address[1] < 65_536:
            refused.missing[name] = f"its coordinator, broker {place.number}, has no valid port"
        else:
            places[name] = place


def parse_coordinators(answer: WireAnswer, groups: Sequence[str], version: int) -> dict[str, tuple[int, _Place]]:
    """Group to error code and coordinator (FindCoordinator 3, of the one group that was asked for, and 4)."""
    answer.int32()  # throttle time
    if version < _FIND_SEVERAL:
        code, _ = answer.int16(), answer.maybe_text()
        return {groups[0]: (code, _Place(answer.int32(), (answer.text(), answer.int32())))}

    def one() -> tuple[str, tuple[int, _Place]]:
        name, number, host, port = answer.text(), answer.int32(), answer.text(), answer.int32()
        code = answer.int16()
        answer.maybe_text()
        answer.tags()
        return name, (code, _Place(number, (host, port)))

    return dict(answer.array(one))


def parse_commits(answer: WireAnswer, groups: Sequence[str], version: int, found: Commits) -> None:
    """Commits of the groups that were asked for (OffsetFetch 7, of one group, and 8), into `found`.

    Raises:
        WireError: if the answer cannot be understood; then `found` is as before.
    """
    answer.int32()
    told = Commits()
    known: dict[str, str] = {}  # one object for each name of a topic
    asked = set(groups)

    def topic() -> tuple[str, list[tuple[int, int, bytes, int]]]:
        name = answer.text()
        parts = answer.array(partition)
        answer.tags()
        return known.setdefault(name, name), parts

    def partition() -> tuple[int, int, bytes, int]:
        number, offset, _ = answer.record(_HEAD)
        note = answer.text_bytes()
        code = answer.int16()
        answer.tags()
        return number, offset, note, code

    def group(name: str) -> None:
        topics, code = answer.array(topic), answer.int16()
        if name not in asked:
            return
        asked.remove(name)
        if code and code != _ABSENT:
            told.refuse(name, code)
        else:
            for which, parts in topics:
                for number, offset, note, problem in parts:
                    if problem == _UNSTABLE:
                        told.refuse(name, problem)
                    elif problem:
                        told.errors[name, which, number] = error_text(problem)
                    else:
                        told.offsets[name, which, number] = offset if offset >= 0 else None
                        if note:
                            told.metadata[name, which, number] = note

    def named() -> None:
        group(answer.text())
        answer.tags()

    if version < _FETCH_SEVERAL:
        group(groups[0])
    else:
        answer.array(named)
    told.missing |= dict.fromkeys(asked, "its coordinator has not answered for it")
    found.add(told)
