"""Letters for people: the newest ones, or counts; keys and values only on request, decoded, with hidden fields replaced."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workbench.errors import SourceUnreachableError, UnknownGroupError
from workbench.humanize import did_you_mean, iso_instant, shell_word
from workbench.payloads.decode import Decoded, Decoder
from workbench.plans.refusal import NO_RIGHT
from workbench.queues.replay_port import Gateway
from workbench.redrive.every_log_must_answer import whole_logs
from workbench.redrive.letter_headers import UNREADABLE, Letter, Origin, Reader
from workbench.redrive.redrive_ports import LetterReader
from workbench.redrive.selection import Selection
from workbench.settings import Cluster

HIDDEN = "hidden"  # stands for a key that was not asked for
_UNREADABLE_ORIGIN = Origin("unknown", None, None, None, None, "(unreadable headers)", None, 0, False)
_MAX_KEY = 200
_MOST_HEADERS = 20  # of one letter are named


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLetter:
    """One letter; key and value are None unless they were asked for.

    Attributes:
        headers: names of its headers, if no convention knows them.
    """

    partition: int
    offset: int
    timestamp_ms: int
    origin: Origin
    type: str | None
    size: int
    key: str | None
    value: Decoded | None
    headers: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As plain values; timestamps are ISO 8601 in UTC, None without one."""
        origin = self.origin._asdict()
        origin["timestamp"] = iso_instant(origin.pop("timestamp_ms"))
        value = None
        if self.value is not None:
            value = {
                "kind": self.value.kind,
                "type": self.value.type,
                "value": self.value.value,
                "problem": self.value.problem,
            }
        names = ("partition", "offset", "type", "size", "key", "headers")
        found = {name: getattr(self, name) for name in names}
        return {**found, "timestamp": iso_instant(self.timestamp_ms), "origin": origin, "value": value}


def newest_letters(
    *,
    gateway: Gateway,
    letters: LetterReader,
    settings: Cluster,
    topic: str,
    selection: Selection,
    most: int,
    payload: bool,
) -> list[ShownLetter]:
    """The newest selected letters, in the order of partition and offset.

    Raises:
        UnknownGroupError: if the topic does not exist. SourceUnreachableError: if Kafka does not answer.
    """
    newest: dict[int, deque[tuple[Letter, Origin]]] = {}
    for letter, origin in _selected(gateway, letters, settings, topic, selection):
        newest.setdefault(letter.partition, deque(maxlen=most)).append((letter, origin))
    found = sorted((pair for some in newest.values() for pair in some), key=lambda it: it[0].timestamp_ms)[-most:]
    decoder = Decoder(settings.records)
    found.sort(key=lambda it: (it[0].partition, it[0].offset))
    return [_shown(letter, origin, decoder, topic, payload=payload) for letter, origin in found]


def count_letters(
    *,
    gateway: Gateway,
    letters: LetterReader,
    settings: Cluster,
    topic: str,
    selection: Selection,
    kinds: Sequence[str],
    most: int,
    payload: bool,
) -> dict[str, list[dict[str, Any]]]:
    """Count the selected letters by error, type, minute, key, source or partition; largest first, minutes in order.

    Raises:
        UnknownGroupError, SourceUnreachableError: as `newest_letters`.
    """
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    decoder = Decoder(settings.records)
    for letter, origin in _selected(gateway, letters, settings, topic, selection):
        for kind, counter in counts.items():
            counter[_name(kind, letter, origin, decoder, topic, payload=payload)] += 1
    return {
        kind: [
            {"name": name, "letters": number}
            for name, number in (sorted(it.items())[:most] if kind == "minute" else it.most_common(most))
        ]
        for kind, it in counts.items()
    }


def _selected(
    gateway: Gateway, letters: LetterReader, settings: Cluster, topic: str, selection: Selection
) -> Iterator[tuple[Letter, Origin]]:
    view = gateway.cluster([topic])
    if topic in view.denied:
        raise SourceUnreachableError(f"These credentials may not read the topic {topic!r}.", hint=NO_RIGHT)
    if topic not in view.topics:
        means = did_you_mean(topic, sorted(view.topics))
        raise UnknownGroupError(
            f"The cluster has no topic {topic!r}.{means}",
            hint=f"See: workbench dlq list --cluster {shell_word(settings.name)}",
        )
    keys = [(topic, number) for number in sorted(view.topics[topic].leaders)]
    logs = whole_logs(gateway, keys, stable=True)
    start = {number: logs.starts[topic, number] for _, number in keys}
    stop = {number: max(at, logs.stable_ends.get((topic, number), at)) for number, at in start.items()}
    reader = Reader({str(name): header for name, header in settings.dead_letters.headers.items()})
    test, seen = selection.test(), 0
    for batch, _ in letters.read(start, stop):
        for letter in batch:
            origin = _UNREADABLE_ORIGIN if letter.headers is UNREADABLE else reader.origin(letter.headers)
            if test(letter, origin):
                seen += 1
                if selection.most is not None and seen > selection.most:
                    return
                yield letter, origin


def _shown(letter: Letter, origin: Origin, decoder: Decoder, topic: str, *, payload: bool) -> ShownLetter:
    source = origin.topic or topic
    return ShownLetter(
        partition=letter.partition,
        offset=letter.offset,
        timestamp_ms=letter.timestamp_ms,
        origin=origin,
        type=type_of(letter, decoder, source),
        size=letter.size,
        key=text_of_key(letter.key) if payload else None,
        value=decoder.decode(source, letter.value) if payload else None,
        headers=_unknown(letter, origin),
    )


def _unknown(letter: Letter, origin: Origin) -> tuple[str, ...]:
    """Names of the headers that no convention knows; without our own."""
    if origin.framework != "unknown" or letter.headers is UNREADABLE:
        return ()
    return tuple(dict.fromkeys(name for name, _ in letter.headers if not name.startswith("wb_")))[:_MOST_HEADERS]


def text_of_key(key: bytes | None) -> str | None:
    """A key as text, or as hex; shortened."""
    if key is None:
        return None
    try:
        return key.decode()[:_MAX_KEY]
    except UnicodeDecodeError:
        return key[:_MAX_KEY].hex(" ")


def type_of(letter: Letter, decoder: Decoder, topic: str) -> str:
    """The header `event_type`, else the type of the value."""
    if letter.headers is not UNREADABLE:
        for name, value in reversed(letter.headers):
            if name == "event_type" and value is not None:
                return value[:200].decode(errors="replace")
    return decoder.type_of(topic, letter.value)


def _name(kind: str, letter: Letter, origin: Origin, decoder: Decoder, topic: str, *, payload: bool) -> str:
    if kind == "error":
        return origin.error
    if kind == "source":
        return origin.topic or "(not said)"
    if kind == "partition":
        return f"{topic}-{letter.partition}"
    if kind == "type":
        return type_of(letter, decoder, origin.topic or topic)
    if kind == "key":
        # Without --payload, equal keys can be told apart, and are not shown.
        from zlib import crc32

        return (text_of_key(letter.key) or "(none)") if payload else f"{HIDDEN} {crc32(letter.key or b''):08x}"
    try:
        return datetime.fromtimestamp(letter.timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")
    except (OverflowError, ValueError, OSError):
        return "(no time)"
