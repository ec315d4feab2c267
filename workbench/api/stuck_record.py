"""The record at which a partition is stuck, read from Kafka for its finding: one record, decoded, with hidden fields replaced."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.masking import masked
from workbench.triage.finding import StuckRecord
from workbench.triage.verdict_names import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.redrive.redrive_ports import LetterReader
    from workbench.settings import Cluster
    from workbench.triage.finding import Finding

_log = logging.getLogger(__name__)
_MOST = 5  # findings whose record is read: each costs a connection
_TIMEOUT_SECONDS = 5.0  # a record that does not come in this time is left out; the finding stands without it
_CAUSES = (None, "poison_record")  # of the others, no record is to blame


def with_records(
    findings: Sequence[Finding], cluster: Cluster, *, reader: Callable[[str], LetterReader] | None = None
) -> tuple[Finding, ...]:
    """Add the record at the committed offset to findings of stuck partitions, worst first; the others stay as they are.

    Args:
        cluster: with `bootstrap`. Its `records.in_findings` decides whether key and value are shown.
        reader: reads a topic; None: from Kafka.
    """
    left, found = _MOST, []
    for it in findings:
        wanted = it.verdict is Verdict.STUCK_PARTITION and it.scope.offset is not None and it.scope.cause in _CAUSES
        if wanted and left:
            left -= 1
            it = replace(it, record=_record(it, cluster, reader or _reader(cluster)))
        found.append(it)
    return tuple(found)


def _reader(cluster: Cluster) -> Callable[[str], LetterReader]:
    from workbench.queues.systems import system_of

    return lambda topic: system_of(cluster).letters(cluster, topic, seconds=_TIMEOUT_SECONDS, batch=1)


def _record(it: Finding, cluster: Cluster, reader: Callable[[str], LetterReader]) -> StuckRecord | None:
    from workbench.payloads.decode import Decoder
    from workbench.redrive.show_letters import text_of_key, type_of

    number, offset = it.scope.partitions[0], it.scope.offset or 0
    try:
        for batch, _ in reader(it.topic).read({number: offset}, {number: offset + 1}):
            for record in batch:
                decoder, shown = Decoder(cluster.records), cluster.records.in_findings
                value = decoder.decode(it.topic, record.value)
                return StuckRecord(
                    partition=number,
                    offset=record.offset,
                    timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                    type=type_of(record, decoder, it.topic),
                    size_bytes=record.size,
                    key=masked(key) if shown and (key := text_of_key(record.key)) is not None else None,
                    value=masked(value.line()) if shown else None,
                    problem=masked(value.problem) if value.problem is not None else None,
                )
    except Exception as error:
        # No right to read the topic, or the record is gone: the finding's action says how to look. Whatever else a record of other
        # people does to its reader, it must not cost the findings.
        _log.debug("the record %s-%d@%d is left out: %s", it.topic, number, offset, type(error).__name__)
        return None
    return None
