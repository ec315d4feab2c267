"""Parsers of brokers' answers in Kafka's own protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.collect.test_kafka_local_starts import local_starts
from tests.collect.wire_broker import classic, commits, coordinators, int32, listing, share_offsets, shares, streams
from tests.fuzz.mutators import of_bytes
from tests.fuzz.target import Case, Target
from workbench.errors import SourceUnreachableError
from workbench.kafka.change_commits import parse_committed, parse_deleted
from workbench.kafka.group_answers import (
    parse_brokers,
    parse_classic,
    parse_list,
    parse_share_offsets,
    parse_shares,
    parse_streams,
)
from workbench.kafka.leader_offsets import parse_offsets
from workbench.kafka.offset_fetch import Commits, parse_commits, parse_coordinators
from workbench.kafka.wire import WireAnswer, WireError, array, old_array, old_text, text

_PARSERS: dict[str, tuple[bytes, Callable[[WireAnswer], Any]]] = {
    "brokers": (
        int32(0)
        + array([int32(1) + text("host") + int32(9092) + text(None) + b"\0"])
        + text("id")
        + int32(1)
        + array([])
        + int32(256)
        + b"\0",
        parse_brokers,
    ),
    "list": (listing({"g": ("consumer", "Stable", "Classic")}), lambda it: parse_list(it, 5, 1)),
    "share": (shares("s", {"a": ("t", (0, 1))}), lambda it: parse_shares(it, 1, "share")),
    "offsets": (share_offsets("s", "t", {0: (1, 2)}), lambda it: parse_share_offsets(it, 1)),
    "streams": (streams("a", "c", "t", (0,), (0, 1)), lambda it: parse_streams(it, 1, "streams")),
    "coordinators": (coordinators({"g": (1, "h", 9092), "d": 30}), lambda it: parse_coordinators(it, ["g", "d"], 4)),
    "one coordinator": (
        int32(0) + b"\0\0" + text(None) + int32(1) + text("h") + int32(9092) + b"\0",
        lambda it: parse_coordinators(it, ["g"], 3),
    ),
    "commits": (
        commits({"g": {("t", 0): 5, ("u", 1): -1}, "x": 69, "m": 16}),
        lambda it: parse_commits(it, ("g", "x", "m"), 8, Commits()),
    ),
    "deleted": (b"\0\0" + int32(0) + old_array([old_text("t") + old_array([int32(1) + b"\0\x56"])]), parse_deleted),
    "committed": (int32(0) + old_array([old_text("t") + old_array([int32(1) + b"\0\x19"])]), parse_committed),
    "local starts": (local_starts({("t", 0): 5, ("t", 1): 9}), parse_offsets),
    "classic": (classic("w", "connect", ("a", "b")), lambda it: parse_classic(it, 1, "connect")),
}


def targets() -> list[Target]:
    """One for all answers."""
    seeds = [data for data, _ in _PARSERS.values()]

    def make(random: Random) -> Case:
        name = random.choice(list(_PARSERS))
        return {name: of_bytes(random, _PARSERS[name][0], seeds)}

    def call(case: Case, _folder: Path) -> object:
        [(name, data)] = case.items()
        try:
            return _PARSERS[name][1](WireAnswer(data))
        except WireError as error:  # `kafka_groups` tells it as what is incomplete
            raise SourceUnreachableError(str(error)) from None

    return [Target(name="kafka_answers", make=make, call=call, share=4)]
