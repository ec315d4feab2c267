"""Dead-letter topics of a cluster, by convention and settings, with what a person needs to choose one."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from workbench.queues.replay_port import Gateway, LogView
from workbench.record_settings import names_of_letters
from workbench.redrive.letter_headers import UNREADABLE, Reader
from workbench.redrive.redrive_ports import LetterReader, LettersGoneError

_SUFFIX = re.compile(r"(?i)([._-](dlt|dlq|dead|dead[._-]?letters?|deadletterqueue))+$")
_SAMPLED = 200  # newest letters of a topic that are read for errors and sources
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopic:
    """One topic.

    Attributes:
        letters: offsets between the log's start and end; an upper bound where transactions or compaction left gaps.
        oldest_seconds: age of the oldest letter; None for an empty topic.
        per_hour: letters of the last hour.
        errors, sources, frameworks: counts among the newest letters.
        sampled: number of those.
        gaps: offsets among the newest that hold no letter.
        silent: partitions without an answer; the other numbers are those of the rest.
    """

    topic: str
    partitions: int
    letters: int
    oldest_seconds: float | None
    per_hour: int
    errors: Mapping[str, int]
    sources: Mapping[str, int]
    frameworks: Mapping[str, int]
    sampled: int
    gaps: int
    silent: int

    @property
    def in_words(self) -> str:
        """The number of letters, and whether it is only a bound."""
        if self.gaps and self.silent:
            return f"about {self.letters:,}"
        return f"{'at most ' if self.gaps else ''}{self.letters:,}{' or more' if self.silent else ''}"

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


def source_by_name(topic: str, known: Sequence[str]) -> str | None:
    """Source topic by the name of the dead-letter topic, if there is one: `orders` for `orders-dlt`."""
    name = _SUFFIX.sub("", topic)
    return name if name != topic and name in known else None


def list_topics(
    gateway: Gateway, letters: Callable[[str], LetterReader], patterns: Sequence[str], mapping: Mapping[str, str]
) -> list[LetterTopic]:
    """Describe the dead-letter topics; most letters first. Reads a bounded sample of each.

    Raises:
        SourceUnreachableError: if Kafka does not answer.
    """
    view = gateway.cluster()
    names = names_of_letters(list(view.topics), patterns)
    keys = [(name, number) for name in names for number in sorted(view.topics[name].leaders)]
    now_ms = int(time.time() * 1000)
    logs = gateway.logs(keys, instants_ms=[0, now_ms - _HOUR_MS], stable=True) if keys else None
    if logs is None:
        return []
    reader = Reader(mapping)
    found = [
        _described(name, [key for key in keys if key[0] == name], logs, letters(name), reader, now_ms) for name in names
    ]
    return sorted(found, key=lambda it: (-it.letters, it.topic))


def _described(
    name: str, keys: Sequence[tuple[str, int]], logs: LogView, letters: LetterReader, reader: Reader, now_ms: int
) -> LetterTopic:
    start = {key[1]: logs.starts.get(key, 0) for key in keys}
    stop = {key[1]: max(start[key[1]], logs.stable_ends.get(key, logs.ends.get(key, 0))) for key in keys}
    first, recent = logs.found[0], logs.found[now_ms - _HOUR_MS]
    oldest = [at for key in keys if key in first and (at := first[key].timestamp_ms) is not None and at >= 0]
    hour = sum(
        it.behind if it.behind is not None else max(0, stop[key[1]] - it.offset)
        for key in keys
        if (it := recent.get(key)) is not None and it.offset is not None
    )
    share = max(1, _SAMPLED // max(1, sum(stop[n] > start[n] for n in start)))
    errors, sources, frameworks, sampled = Counter[str](), Counter[str](), Counter[str](), 0
    read = 0
    with suppress(LettersGoneError):  # one topic that retention empties now must not hide the others
        newest = {
            n: at
            if stop[n] == at
            else logs.back((name, n), share)
            if logs.back is not None
            else max(at, stop[n] - share)
            for n, at in start.items()
        }
        read = sum(stop[n] - at for n, at in newest.items()) if logs.back is None else 0
        for batch, _ in letters.read(newest, stop):
            for letter in batch:
                sampled += 1
                if letter.headers is UNREADABLE:
                    errors["(unreadable headers)"] += 1
                    continue
                origin = reader.origin(letter.headers)
                errors[origin.error] += 1
                sources[origin.topic or "(not said)"] += 1
                frameworks[origin.framework] += 1
    return LetterTopic(
        topic=name,
        partitions=len(keys),
        letters=sum(logs.sizes.get(key, stop[key[1]] - start[key[1]]) for key in keys),
        oldest_seconds=(now_ms - min(oldest)) / 1000 if oldest else None,
        per_hour=hour,
        errors=dict(errors.most_common(10)),
        sources=dict(sources.most_common(10)),
        frameworks=dict(frameworks.most_common()),
        sampled=sampled,
        gaps=max(0, read - sampled),
        silent=sum(key in logs.errors for key in keys),
    )
