"""Commits of one group, read by our own requests.

librdkafka (2.16) ends the process with a segmentation fault if a coordinator that has just moved answers an admin client's request for
commits with NOT_COORDINATOR: it looks for the client's own group, and an admin client has none. That is the moment of a lost broker,
in which a replay must not lose its process.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from workbench.collect.kafka_answers import GROUP_DENIED, error_text
from workbench.collect.kafka_groups import NotListedError, addresses
from workbench.collect.kafka_login import NoCounterpartError, Security, logged_in, security_of
from workbench.collect.kafka_views import Partition
from workbench.collect.kafka_wire import Answer, Api, WireError, array, text

_FIND = Api("FindCoordinator", 10, 4, 4)
_FETCH = Api("OffsetFetch", 9, 8, 8)
_GROUP = b"\x00"  # type of the coordinator
_ALL_TOPICS = b"\x00"  # a null array
_ANY_STATE = b"\x00"  # offsets of open transactions do not hold the answer up
_ABSENT = 69  # GROUP_ID_NOT_FOUND
_PAUSE_SECONDS = 0.2
_ATTEMPT_SECONDS = 3.0


class CommitsDeniedError(WireError):
    """These credentials may not read the group."""


def read_commits(bootstrap: str, properties: Mapping[str, Any], group: str, deadline: float) -> dict[Partition, int]:
    """Committed offsets of a group by (topic, partition); of a group that does not exist, none.

    Args:
        bootstrap, properties: as for librdkafka.
        deadline: monotonic; until then a coordinator that moves or does not answer is looked for again.

    Raises:
        NotListedError: if the settings have a property, or the brokers a version, that this cannot serve: ask librdkafka.
        CommitsDeniedError: without the right to describe the group.
        OSError, WireError: if no coordinator answers in time, or an offset cannot be read.
    """
    try:
        security = security_of(properties)
    except NoCounterpartError as error:
        raise NotListedError(f"{error} is not supported for this request") from None
    except (OSError, ValueError) as error:
        raise NotListedError(f"a certificate or key cannot be used: {error}") from None
    last: Exception = WireError(f"{bootstrap!r} has no address")
    while True:
        for address in addresses(bootstrap):
            limit = min(deadline, time.monotonic() + _ATTEMPT_SECONDS)
            try:
                found = _at(_coordinator(address, security, group, limit), security, group, limit)
            except (NotListedError, CommitsDeniedError):
                raise
            except (OSError, WireError) as error:
                last = error
            else:
                return found
        if time.monotonic() + _PAUSE_SECONDS >= deadline:
            raise last
        time.sleep(_PAUSE_SECONDS)


def _coordinator(address: tuple[str, int], security: Security, group: str, deadline: float) -> tuple[str, int]:
    with logged_in(address, security, deadline) as wire:
        if not wire.has(_FIND) or not wire.has(_FETCH):
            raise NotListedError("these brokers are older than Kafka 3.0")
        _, answer = wire.ask(_FIND, lambda _version: _GROUP + array([text(group)]))
    answer.int32()  # throttle time

    def one() -> tuple[int, str | None, tuple[str, int]]:
        answer.text()
        answer.int32()
        host, port, code, words = answer.text(), answer.int32(), answer.int16(), answer.maybe_text()
        answer.tags()
        return code, words, (host, port)

    for code, words, place in answer.array(one):
        if code == GROUP_DENIED:
            raise CommitsDeniedError(error_text(code))
        if code or not 0 < place[1] < 65_536:
            raise WireError(words or error_text(code))
        return place
    raise WireError("no coordinator")


def _at(address: tuple[str, int], security: Security, group: str, deadline: float) -> dict[Partition, int]:
    with logged_in(address, security, deadline) as wire:
        wanted = array([text(group) + _ALL_TOPICS + b"\x00"])
        _, answer = wire.ask(_FETCH, lambda _version: wanted + _ANY_STATE)
    return parse_commits(answer)


def parse_commits(answer: Answer) -> dict[Partition, int]:
    """Committed offsets of the answer's only group (OffsetFetch 8).

    Raises:
        CommitsDeniedError, WireError: for an error of the group, or of a partition: an unreadable commit is not a missing one.
    """
    answer.int32()
    found: dict[Partition, int] = {}

    def partition() -> tuple[int, int, int]:
        number, offset = answer.int32(), answer.int64()
        answer.int32()  # leader epoch
        answer.maybe_text()  # metadata
        code = answer.int16()
        answer.tags()
        return number, offset, code

    def topic() -> None:
        name = answer.text()
        for number, offset, code in answer.array(partition):
            if code:
                raise WireError(f"{name}-{number}: {error_text(code)}")
            if offset >= 0:
                found[name, number] = offset
        answer.tags()

    def group() -> int:
        answer.text()
        answer.array(topic)
        code = answer.int16()
        answer.tags()
        return code

    for code in answer.array(group):
        if code == GROUP_DENIED:
            raise CommitsDeniedError(error_text(code))
        if code and code != _ABSENT:
            raise WireError(error_text(code))
    return found
