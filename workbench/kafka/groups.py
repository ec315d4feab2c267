"""All groups of a cluster, and those that librdkafka does not describe: share, Streams, Connect and other programs' groups.

Each broker lists the groups that it coordinates, with their types, and describes those of the other kinds: one request per broker and
kind. librdkafka lists consumer groups only, waits for a lost broker until the time limit, and keeps a processor busy meanwhile.
`wire` says why this is not Java.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from workbench.background import in_background
from workbench.kafka.brokers_that_answer import coordination_of
from workbench.kafka.connection import seconds_left
from workbench.kafka.group_answers import (
    GROUP_DENIED,
    Coordination,
    Listed,
    ask_brokers,
    error_text,
    parse_classic,
    parse_list,
    parse_share_offsets,
    parse_shares,
    parse_streams,
    spelled,
)
from workbench.kafka.group_listing import Others, settled
from workbench.kafka.librdkafka_errors import error_words
from workbench.kafka.patient_reads import ClusterReading
from workbench.kafka.wire import SILENCE_SECONDS, Address, Api, Wire, WireError, addresses, array, text
from workbench.kafka.wire_tls_and_login import NoCounterpartError, Security, logged_in, security_of
from workbench.queues.group_kinds import CLASSIC, CONSUMER, HIDDEN, SHARE, STREAMS
from workbench.queues.snapshot_views import NOT_PERMITTED, GroupView, Member

T = TypeVar("T")

_LIST = Api("ListGroups", 16, 3, 5)
_DESCRIBE = Api("DescribeGroups", 15, 5, 5)
_DESCRIBE_SHARE = Api("ShareGroupDescribe", 77, 1, 1)
_SHARE_OFFSETS = Api("DescribeShareGroupOffsets", 90, 0, 1)
_DESCRIBE_STREAMS = Api("StreamsGroupDescribe", 89, 0, 0)

_ALL_TOPICS = b"\x00"  # a null array
_BATCH = 200  # groups of one request
_BROKERS_AT_ONCE = 32
_QUICK_SECONDS = 1.0
LOADING = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_LOADING_SECONDS = 10.0
_LOADING_PAUSE_SECONDS = 0.2


class NotListedError(Exception):
    """The groups of other kinds cannot be listed here, and why."""


def groups_of(reading: ClusterReading, only: Collection[str] | None, known: Callable[[], Collection[str]]) -> Others:
    """Groups of all kinds; librdkafka is asked for what it can tell where our own requests fail.

    Args:
        reading: the attempt that this belongs to.
        only: describe these of the other kinds; None: all.
        known: the groups that librdkafka lists, if they are needed.

    Raises:
        AgainError: of a first attempt, if a broker does not answer.
        SourceUnreachableError: if the brokers refuse this client.
    """
    kafka, deadline = reading.kafka, reading.own_deadline
    silent = set(reading.brokers.silent) if reading.brokers is not None else set[int]()
    servers, properties, silence, before = (
        kafka.own_servers, kafka.properties, reading.silence_seconds, kafka.coordination,
    )  # fmt: skip
    asked = in_background(
        lambda: read_others(servers, properties, deadline, only=only, silent=silent, silence=silence, before=before)
    )
    try:
        found = reading.wait_for_own(asked)
    except (NotListedError, TimeoutError) as error:
        why = str(error) or "no answer in time"
        found = settled(_by_librdkafka(reading, known, only, why), kafka.coordination, deadline)
        kafka.coordination = found.coordination
        return found
    kafka.requests += found.requests
    kafka.server, kafka.coordination = found.server, found.coordination
    if found.is_lost:
        reading.begin_again()
    return found


def _by_librdkafka(
    reading: ClusterReading, known: Callable[[], Collection[str]], only: Collection[str] | None, why: str
) -> Callable[[], Others]:
    """What lists groups once."""
    from confluent_kafka import KafkaException

    said = len(reading.incomplete)

    def once() -> Others:
        del reading.incomplete[said:]  # of the list before
        found = Others(consumers=set(known()))
        admin = reading.kafka.connect()
        if only is None or only:
            reading.kafka.requests += 1
            try:
                left = seconds_left(reading.deadline)
                found = listed_by_librdkafka(admin, found.consumers, why, left, only=only)
            except KafkaException as error:
                words = f"share, Streams and Connect groups are not listed: {why}; {error_words(error)}"
                found.incomplete.append(words)
        reading.kafka.requests += 1
        found.coordination = coordination_of(admin, reading.metadata_seconds)
        return found

    return once


def read_others(
    bootstrap: str,
    properties: Mapping[str, Any],
    deadline: float,
    *,
    only: Collection[str] | None = None,
    silent: Collection[int] = (),
    silence: float = SILENCE_SECONDS,
    before: Coordination | None = None,
) -> Others:
    """List all groups, and describe those that librdkafka does not describe.

    While groups move to other coordinators they are listed again, until two lists agree.

    Args:
        bootstrap, properties: as for librdkafka.
        deadline: monotonic.
        only: describe these; None: all.
        silent: brokers that are known not to answer; they are not waited for.
        silence: seconds; a broker that sends nothing for so long is given up.
        before: who coordinated groups when they were listed before; None: not known.

    Raises:
        NotListedError: if no broker answers, or the settings have a property without a counterpart.
    """
    return settled(
        lambda: _read_once(bootstrap, properties, deadline, only=only, silent=silent, silence=silence), before, deadline
    )


def _read_once(
    bootstrap: str,
    properties: Mapping[str, Any],
    deadline: float,
    *,
    only: Collection[str] | None,
    silent: Collection[int],
    silence: float,
) -> Others:
    security = own_security(properties)
    found = Others()
    gone: dict[Address, str] = {}
    brokers = _brokers(bootstrap, security, deadline, silence, found, gone)
    gone |= {address: "it does not answer" for number, address in brokers.items() if number in silent}
    room = threading.Semaphore(_BROKERS_AT_ONCE)

    def one(number: int, address: Address) -> Others:
        with room:
            return _of_broker(number, address, security, deadline, silence, only)

    waiting = [
        (number, address, in_background(lambda number=number, address=address: one(number, address)))  # type: ignore[misc]
        for number, address in brokers.items()
        if address not in gone  # it is not waited for a second time
    ]
    found.incomplete += [_at(number, it, gone[it]) for number, it in brokers.items() if it in gone]
    found.is_lost = any(it in gone for it in brokers.values())
    for number, address, future in waiting:
        try:
            found.add(future.result(max(0.1, deadline - time.monotonic())))
        except (OSError, WireError) as error:  # TimeoutError is an OSError
            found.is_lost |= isinstance(error, OSError)
            found.incomplete.append(_at(number, address, _words(error)))
    return found


def own_security(properties: Mapping[str, Any]) -> Security:
    """How our own requests connect.

    Raises:
        NotListedError: if the settings have a property without a counterpart.
    """
    try:
        return security_of(properties)
    except NoCounterpartError as error:
        raise NotListedError(f"{error} is not supported for this request") from None
    except (OSError, ValueError) as error:
        raise NotListedError(f"a certificate or key cannot be used: {error}") from None


def listed_by_librdkafka(
    admin: Any, known: Collection[str], why: str, seconds: float, *, only: Collection[str] | None = None
) -> Others:
    """What librdkafka can tell: the names of all groups, and the kind of those with the classic protocol.

    Args:
        known: consumer groups; all others are told.
        why: the brokers could not be asked by `read_others`.
        seconds: for the answer.
        only: these; None: all.
    """
    found = Others(consumers=set(known))
    with warnings.catch_warnings():  # its successors leave out the groups that are looked for here
        warnings.simplefilter("ignore", DeprecationWarning)
        listed = admin.list_groups(timeout=seconds)
    for item in listed:
        if item.id in known or (only is not None and item.id not in only):
            continue
        kind = item.protocol_type if item.protocol_type not in ("", None, "consumer") else HIDDEN
        members = tuple(
            Member(member_id=it.id, client_id=it.client_id, host=it.client_host, partitions=()) for it in item.members
        )
        state = "unknown" if kind == HIDDEN else spelled(item.state)
        view = GroupView(group=item.id, state=state, protocol=kind, coordinator=item.broker.id, members=members)
        found.views[item.id] = view
        found.listed[item.id] = Listed(group=item.id, kind=kind, state=state, coordinator=view.coordinator)
        if kind == HIDDEN:
            found.incomplete.append(f"group {item.id!r}: a share or Streams group, which cannot be described: {why}")
    return found


def first_to_answer(
    servers: Sequence[Address], silence: float, ask: Callable[[Address, float], T], failed: dict[Address, str]
) -> T | None:
    """What the first server that answers says; None if none does. The others before it get into `failed`, with the reason.

    Args:
        silence: seconds that a server may send nothing. At first each has a second of it: the next one may answer at once.
        ask: gets the address and the time; it may raise OSError and WireError.
    """
    late: list[Address] = []
    for limit, asked in ((min(_QUICK_SECONDS, silence), list(servers)), (silence, late)):
        for address in asked:
            try:
                return ask(address, limit)
            except (OSError, WireError) as error:
                failed[address] = _words(error)
                if isinstance(error, TimeoutError) and limit < silence:
                    late.append(address)
    return None


def _brokers(
    bootstrap: str, security: Security, deadline: float, silence: float, found: Others, silent: dict[Address, str]
) -> Mapping[int, Address]:
    """Addresses of all brokers, from the first server that answers; the others before it get into `silent`."""

    def ask(address: Address, limit: float) -> Mapping[int, Address]:
        with logged_in(address, security, deadline, silence=limit) as wire:
            try:
                told = ask_brokers(wire, coordination=True)
            finally:
                found.requests += wire.requests
        # Without the right, brokers list only the groups that the client may describe, and do not say so.
        found.lists_all = told.may_describe or not security.knows_client
        found.server, found.coordination = address, told.coordination
        return told.brokers

    brokers = first_to_answer(addresses(bootstrap), silence, ask, silent)
    if brokers is None:
        problems = [f"{host}:{port}: {words}" for (host, port), words in silent.items()]
        raise NotListedError("; ".join(problems) or f"{bootstrap!r} has no address")
    return brokers


def _of_broker(
    number: int,
    address: Address,
    security: Security,
    deadline: float,
    silence: float,
    only: Collection[str] | None,
) -> Others:
    found = Others()
    with logged_in(address, security, deadline, silence=silence) as wire:
        try:
            found.listed = _list(wire, number, deadline)
            kinds: dict[str, list[str]] = {}
            for it in found.listed.values():
                if it.kind in (CLASSIC, CONSUMER):
                    found.consumers.add(it.group)
                elif only is None or it.group in only:
                    kinds.setdefault(it.kind, []).append(it.group)
            for kind, names in kinds.items():
                for at in range(0, len(names), _BATCH):
                    _describe(wire, number, kind, names[at : at + _BATCH], found)
        finally:
            found.requests += wire.requests
    return found


def _list(wire: Wire, number: int, deadline: float) -> dict[str, Listed]:
    patience = min(deadline, time.monotonic() + _LOADING_SECONDS)
    while True:
        version, answer = wire.ask(_LIST, lambda version: array(()) * max(0, version - 3))  # no filters
        code, listed = parse_list(answer, version, number)
        if code == 0:
            return listed
        if code not in LOADING or time.monotonic() >= patience:
            raise WireError(error_text(code))
        time.sleep(_LOADING_PAUSE_SECONDS)


def _describe(wire: Wire, number: int, kind: str, names: Sequence[str], found: Others) -> None:
    """Describe some groups of one kind; those without an answer keep what the list told."""
    api = {SHARE: _DESCRIBE_SHARE, STREAMS: _DESCRIBE_STREAMS}.get(kind, _DESCRIBE)
    parse = {SHARE: parse_shares, STREAMS: parse_streams}.get(kind, parse_classic)
    views: dict[str, GroupView] = {}
    try:
        _, answer = wire.ask(api, lambda _version: array(map(text, names)) + b"\x00")
        for name, code, view in parse(answer, number, kind):
            if code == GROUP_DENIED:
                found.denied.append(name)
            elif code:
                found.incomplete.append(f"group {name!r}: {error_text(code)}")
            else:
                views[name] = view
        if kind == SHARE:
            asked = [text(name) + _ALL_TOPICS + b"\x00" for name in names]
            version, answer = wire.ask(_SHARE_OFFSETS, lambda _version: array(asked))
            shares, refused, missing = parse_share_offsets(answer, version)
            found.shares |= shares
            found.denied += refused
            found.incomplete += missing
    except WireError as error:
        found.incomplete.append(f"{kind} groups at broker {number}: {_words(error)}")
    for name in names:
        listed = found.listed[name]
        found.views[name] = views.get(name) or GroupView(
            group=name,
            state=NOT_PERMITTED if name in found.denied else listed.state,
            protocol=kind,
            coordinator=number,
            members=(),
        )


def _at(number: int, address: Address, words: str) -> str:
    return f"groups at broker {number} ({address[0]}:{address[1]}): {words}"


def _words(error: BaseException) -> str:
    return str(error) or "no answer in time"
