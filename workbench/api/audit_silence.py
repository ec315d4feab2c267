"""Who has fallen silent, in an audit: also streams whose latest rows lie before the period that is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Any

from workbench.logs.record_counts import answering
from workbench.report.audit_state import SilentLayer

if TYPE_CHECKING:
    from workbench.api.audits import AuditLedger

Layer = tuple[str, str]  # stream and layer


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBefore:
    """What the topic of the rows still holds before the period.

    Attributes:
        told_ms: by stream and layer, when it wrote the latest row that was seen.
        reach_ms: nothing is known of what fell silent before; None: of what fell silent before the period.
    """

    told_ms: Mapping[Layer, int] = field(default_factory=dict)
    reach_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Silent layers by stream, and how far back that is known: see `RowsBefore`."""

    streams: Mapping[str, Sequence[SilentLayer]]
    reach_ms: int | None


def silence_of(ledger: AuditLedger, *, first_ms: int | None = None, now_ms: int | None = None) -> Silence:
    """See `rows_before` and `silent_layers`."""
    told = ledger.last_told()
    before = rows_before(ledger, told)
    return Silence(
        streams=silent_layers(ledger, told, before, first_ms=first_ms, now_ms=now_ms), reach_ms=before.reach_ms
    )


def rows_before(ledger: AuditLedger, told: Sequence[Any]) -> RowsBefore:
    """What some short pieces of before the rows of a ledger tell; if it has read everything, there are none.

    Args:
        told: its `last_told`.

    Raises:
        SourceUnreachableError, EvidenceError: if the topic cannot be read.
    """
    looked, kept = ledger.earlier, ledger.kept
    if looked is None or kept is None:
        oldest_ms = min((row["first_ms"] for row in told if row["first_ms"] is not None), default=None)
        return RowsBefore(reach_ms=oldest_ms if kept is None else kept.every_ms)
    with answering(ledger.settings.topic):
        earlier = looked.rows.where("emitted_ms > 0").groupBy("stream", "layer").agg({"emitted_ms": "max"}).collect()
    reach_ms = kept.every_ms if looked.is_whole else None
    return RowsBefore(told_ms={(row[0], row[1]): row[2] for row in earlier}, reach_ms=reach_ms)


def silent_layers(
    ledger: AuditLedger,
    told: Sequence[Any],
    before: RowsBefore,
    *,
    first_ms: int | None = None,
    now_ms: int | None = None,
) -> dict[str, list[SilentLayer]]:
    """By stream, layers that have told nothing for longer than records may be late: one that lives tells, also when nothing comes.

    Args:
        told: its `last_told`.
        before: as `rows_before`.
        first_ms: begin of the period; None: there is none, all rows were read.
        now_ms: None: the clock, of rows in a topic; of those in a folder, which may be of any time, the latest of them.

    Of a stream that the settings expect and of which there is no row at all, these are all layers.
    """
    layers = set(ledger.settings.layers)
    times: dict[Layer, int | None] = {
        (row["stream"], row["layer"]): row["told_ms"] for row in told if row["layer"] in layers
    }
    if now_ms is None:
        latest_ms = max((it for it in times.values() if it is not None), default=0)
        now_ms = latest_ms if ledger.settings.topic is None else round(time() * 1000)
    for place, earlier_ms in before.told_ms.items():
        if place[1] in layers and times.get(place) is None:
            times[place] = earlier_ms
    untold = {(stream, layer) for stream in ledger.expected - {it for it, _ in times} for layer in layers}
    found: dict[str, list[SilentLayer]] = {}
    for stream, layer in sorted(times.keys() | untold):
        told_ms = times.get((stream, layer))
        # Of who was seen before the period, it is only known that nothing came within.
        since_ms = max((it for it in (told_ms, first_ms) if it is not None), default=None)
        silence_ms = 0 if since_ms is None else now_ms - since_ms
        is_untold = since_ms is None and (stream, layer) in untold
        if stream not in ledger.settings.ended and (is_untold or silence_ms > ledger.shape.silence_ms):
            at = None if told_ms is None else datetime.fromtimestamp(told_ms / 1000, UTC)
            found.setdefault(stream, []).append(SilentLayer(layer=layer, told=at, seconds=silence_ms / 1000))
    return found
