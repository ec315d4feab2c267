"""Lag before Kafka: gateways that tell their clients to come again later (429), and processes that keep records on their disks.

Consumers show no lag of it. The age of a backlog is told, or bounded by how many records wait and how many have left (the oldest leaves
first), or else not known; then only one that is far above what it usually was counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from workbench.breaker_settings import BreakerSettings
from workbench.history.gateway_counts import Destination, Process, processes
from workbench.history.partition_series import Track
from workbench.humanize import clock, duration, plural, printable, size
from workbench.judgement_numbers import FAR, FEW_SAMPLES, NOISE
from workbench.quantiles import median
from workbench.window import Window

REFUSED = "429"
_AGE, _SIZES = "disk_backlog_age", ("disk_backlog_records", "disk_backlog_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What one process holds back.

    Attributes:
        destination: of a backlog, if the process tells it.
        since: since when, seconds since the epoch: the creation of the oldest record, the first refusal of those that go on, or when
            the backlog rose.
        refused: requests answered by 429 since then; `refused_share` of all answers. None: it is a backlog.
        records, size_bytes: what waits on disk; None: not told.
        age_low_seconds, age_high_seconds: of the oldest, in seconds; equal if it is told. None: no such bound is known.
        is_growing: whether more waits than when what is late now came; None: not known.
    """

    process: str
    destination: Destination
    since: float
    refused: int | None = None
    refused_share: float | None = None
    records: int | None = None
    size_bytes: int | None = None
    age_low_seconds: float | None = None
    age_high_seconds: float | None = None
    is_growing: bool | None = None

    @property
    def words(self) -> str:
        """The process, what it holds back and since when, for people."""
        since = clock(self.since)
        if self.refused is not None:
            share = f"{self.refused_share or 0.0:.1%} of its answers"
            return f"{printable(self.process)} answers 429 since {since}: {plural(self.refused, 'request')}, {share}"
        parts = [plural(self.records, "record")] if self.records is not None else []
        parts += [size(self.size_bytes)] if self.size_bytes is not None else []
        much = f"{', '.join(parts)}, " if parts else ""
        to = "" if self.destination is None else f" for {printable(self.destination)}"
        return f"{printable(self.process)} keeps {much}{self._age} on its disk{to} since {since}{self._trend}"

    @property
    def _age(self) -> str:
        if self.age_low_seconds is None:
            return "of unknown age, far more than usually,"
        if self.age_low_seconds == self.age_high_seconds:
            return f"the oldest {duration(self.age_low_seconds)} old,"
        most = "" if self.age_high_seconds is None else f" to {duration(self.age_high_seconds)}"
        return f"the oldest {duration(self.age_low_seconds)}{most or ' or more'} old if the oldest leaves first,"

    @property
    def _trend(self) -> str:
        return "" if self.is_growing is None else ", growing" if self.is_growing else ", not growing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagBeforeKafka:
    """All of a cluster.

    Attributes:
        held: the oldest first.
        told: processes of which it can be told whether they hold something back.
        untold: the others that tell a part of it, each with what is missing.
    """

    held: tuple[HeldBack, ...] = ()
    told: tuple[str, ...] = ()
    untold: tuple[tuple[str, str], ...] = ()


def lag_before_kafka(
    found: Mapping[str, Process],
    window: Window,
    *,
    late_seconds: float,
    stale_seconds: float,
    breaker: BreakerSettings | None = None,
) -> LagBeforeKafka:
    """Find processes that hold records back, for longer than what counts as late, at the end of a window.

    Args:
        stale_seconds: a process that has told nothing for longer is gone; what it held then is not known.
        breaker: answers are judged over its window and its least number.
    """
    held, told, untold = list[HeldBack](), list[str](), dict[str, str]()
    settings = breaker or BreakerSettings()
    for name, process in found.items():
        backlogs = {of for signal in (_AGE, *_SIZES) for of, _ in process.gauges.get(signal, {})}
        if not backlogs and not process.answers.counted:
            continue
        if -process.last_at > stale_seconds:
            untold[name] = (
                f"anything since {duration(-process.last_at)} before the end: what it held back then is not known"
            )
            continue
        some = [_backlog(name, process, of, window, late_seconds, stale_seconds) for of in sorted(backlogs, key=str)]
        some.append(_refusals(name, process, window, late_seconds, stale_seconds, settings))
        held += [it for it in some if isinstance(it, HeldBack)]
        if lacking := [it for it in some if isinstance(it, str)]:
            untold[name] = lacking[0]
        else:
            told.append(name)
    return LagBeforeKafka(
        held=tuple(sorted(held, key=lambda it: (it.since, it.process, str(it.destination)))),
        told=tuple(sorted(told)),
        untold=tuple(sorted(untold.items())),
    )


def words_of_lag_before(
    samples: pa.Table, window: Window, *, late_seconds: float, stale_seconds: float, source: str
) -> tuple[str, ...]:
    """What is held back before Kafka, for a judgement that sees only Kafka: the oldest in words, and how many more; often nothing.

    `source` is the option of the command that tells all of it: of a cluster, or of a capture.
    """
    found = lag_before_kafka(processes(samples, window), window, late_seconds=late_seconds, stale_seconds=stale_seconds)
    if not found.held:
        return ()
    more = f", and {plural(len(found.held) - 1, 'more process', 'more processes')}" if len(found.held) > 1 else ""
    return (f"records also wait before Kafka: {found.held[0].words}{more}: workbench audit upstream {source}",)


def _refusals(
    name: str, process: Process, window: Window, late_seconds: float, stale_seconds: float, breaker: BreakerSettings
) -> HeldBack | str | None:
    """Of a gateway; a text says what is missing."""
    answers = process.answers
    refusals = [it for it in answers.counted if it[1] == REFUSED]
    total, refused = answers.total(list(answers.counted)), answers.total(refusals)
    if total is None or refused is None:
        return None  # it tells its codes, and 429 is none of them
    if len(refusals) == len(answers.counted):
        return "gateway_answers of other codes than 429"
    if -answers.at[-1] > stale_seconds:
        return f"gateway_answers since {duration(-float(answers.at[-1]))} before the end"
    blocks = list(answers.blocks(total, seconds=breaker.window.total_seconds(), least=breaker.least_sends))
    if not blocks or -answers.at[blocks[-1][1]] > stale_seconds:
        lately = answers.at > -max(late_seconds, stale_seconds)
        if refused[lately].sum() > NOISE * total[lately].sum():
            return f"{breaker.least_sends} answers in {duration(stale_seconds)}: with fewer it is not known whether it goes on refusing"
        return None  # nobody asks it, or it refuses nobody
    first = last = blocks[-1][1]
    for start, stop in reversed(blocks):
        part = slice(start + 1, stop + 1)
        if stop != first or refused[part].sum() <= NOISE * total[part].sum():
            break
        first = start
    seen = np.flatnonzero(refused[first + 1 : last + 1])
    first += int(seen[0]) if len(seen) else 0  # a block of few answers is long
    if answers.at[last] - answers.at[first] <= late_seconds:
        return None
    part = slice(first + 1, last + 1)
    return HeldBack(
        process=name,
        destination=None,
        since=window.end.timestamp() + float(answers.at[first]),
        refused=int(refused[part].sum()),
        refused_share=float(refused[part].sum() / total[part].sum()),
    )


def _backlog(
    name: str, process: Process, destination: Destination, window: Window, late_seconds: float, stale_seconds: float
) -> HeldBack | str | None:
    """Of a process and destination; a text says what is missing. What is measured no more says nothing of now."""
    every = [_line(process, it, destination) for it in (_AGE, *_SIZES)]
    age, records, in_bytes = (it if len(it) and -it.at[-1] <= stale_seconds else Track() for it in every)
    if not (len(age) or len(records) or len(in_bytes)):
        last = max(float(it.at[-1]) for it in every if len(it))
        return f"disk_backlog_* since {duration(-last)} before the end: what it held back then is not known"
    waiting = records if len(records) else in_bytes
    last = float((age if len(age) else waiting).at[-1])
    low, high = _ages(process, destination, age, records, waiting)
    if high is not None and high <= late_seconds:
        return None
    if low is not None and low > late_seconds:
        since = last - (low if high is None else high)
    elif low is None and (risen := _risen(waiting, window, late_seconds)) is not None:
        since = risen
    else:
        return f"{_AGE}: what waits may be late or not"
    return HeldBack(
        process=name,
        destination=destination,
        since=max(0.0, window.end.timestamp() + since),  # whatever age an exporter tells
        records=int(records.value[-1]) if len(records) else None,
        size_bytes=int(in_bytes.value[-1]) if len(in_bytes) else None,
        age_low_seconds=low,
        age_high_seconds=high,
        is_growing=bool(waiting.value[-1] > np.interp(last - late_seconds, waiting.at, waiting.value))
        if len(waiting)
        else None,
    )


def _line(process: Process, signal: str, destination: Destination) -> Track:
    return process.gauges.get(signal, {}).get((destination, "value"), Track())


def _ages(
    process: Process, destination: Destination, age: Track, records: Track, waiting: Track
) -> tuple[float | None, float | None]:
    """Of the oldest record that waits, at least and at most: told, or by what waits and has left, or by when nothing waited."""
    if len(age):
        return float(age.value[-1]), float(age.value[-1])
    empty = waiting.at[waiting.value == 0]
    high = float(waiting.at[-1] - empty[-1]) if len(empty) else None
    left = process.sends.total([(destination, "ok")])
    seen = np.isin(process.sends.at, records.at)
    if left is None or not len(records) or not seen.all() or high == 0:
        return (0.0 if high == 0 else None), high
    begin = int(np.flatnonzero(process.sends.is_gap)[-1]) if process.sends.is_gap.any() else 0
    at, gone = process.sends.at[begin:], np.cumsum(left[begin:])
    came = gone + records.value[np.isin(records.at, at)]
    first = int(np.argmax(came > gone[-1]))  # the oldest that waits had come by then
    return float(at[-1] - at[first]), high if first == 0 else float(at[-1] - at[first - 1])


def _risen(waiting: Track, window: Window, late_seconds: float) -> float | None:
    """Since when far more waits than usually, in seconds before the end; None: not for long, or it is not known how much is usual."""
    before = waiting.value[waiting.at <= -window.seconds]
    if len(before) < FEW_SAMPLES:
        return None
    usual = np.flatnonzero(waiting.value <= FAR * median(before))
    much = waiting.at[int(usual[-1]) + 1 :] if len(usual) else waiting.at
    return float(much[0]) if len(much) and much[-1] - much[0] > late_seconds else None
