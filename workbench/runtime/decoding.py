"""Decoding of records to events: the decoder's result is checked, and delays are added."""

from __future__ import annotations

import logging
import math
from typing import Any

from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import UNDECODABLE, Decoder, Event, Record
from workbench.runtime.runtime_metrics import RuntimeMetrics

_log = logging.getLogger(__name__)


class Decoding:
    """Decodes records for one consumer thread."""

    def __init__(self, config: RuntimeConfig, decode: Decoder, metrics: RuntimeMetrics) -> None:
        self._group = config.group
        self._decode = decode
        self._metrics = metrics
        self._delays_ms = {name: round(of.delay_seconds * 1000) for name, of in config.processors.items()}
        self._has_delays = any(self._delays_ms.values()) or config.default_processor.delay_seconds > 0
        self._default_delay_ms = round(config.default_processor.delay_seconds * 1000)

    def event(self, record: Record) -> Event | None:
        """Decode a record; None to skip it. A record that cannot be decoded becomes an event of type `UNDECODABLE`."""
        try:
            event = self._decode(record)
            if (  # the usual case
                type(event) is not Event
                or event.record is not record
                or type(event.type) is not str
                or type(event.key) is not bytes
                or event.delay_until_ms is not None
            ):
                event = _checked(event, record)
        except BaseException as error:
            # As with handlers: also `sys.exit`, a cancelled task, a panic of a library in Rust. If they ended the thread, so would they
            # end every next owner at the same record.
            self._metrics.undecodable.labels(self._group, record.topic).inc()
            _log.warning(
                "undecodable record %s-%d@%d: %s", record.topic, record.partition, record.offset, type(error).__name__
            )
            return Event(type=UNDECODABLE, key=record.key or b"", payload=None, record=record)
        if event is None or not self._has_delays:
            return event
        delay_ms = self._delays_ms.get(event.type, self._default_delay_ms)
        if event.delay_until_ms is None and delay_ms and record.timestamp_ms >= 0:
            event.delay_until_ms = record.timestamp_ms + delay_ms
        return event


def _checked(event: Any, record: Record) -> Event | None:
    """Check the decoder's result.

    Raises:
        TypeError: if it is not a valid event: the record is then undecodable, but member and partition continue.
    """
    if event is None:
        return None
    if not isinstance(event, Event):
        raise TypeError(f"a decoder returns an Event or None, not {type(event).__name__}")
    of: Any = event.record
    if of is not record and not (isinstance(of, Record) and of[:3] == record[:3]):
        raise TypeError("an event must keep topic, partition and offset of its record: they identify what is committed")
    kind: Any = event.type  # the decoder may have put anything there
    key: Any = event.key
    delay: Any = event.delay_until_ms
    if key is None:  # like a record without a key
        event.key = key = b""
    if not (isinstance(key, bytes) and isinstance(kind, str)):
        raise TypeError("an event needs a type of class str and a key of class bytes")
    event.key, event.type = bytes(key), "".join((kind,))  # of these very classes: others may compare as they like
    if delay is not None and not (isinstance(delay, int | float) and math.isfinite(delay)):
        raise TypeError("delay_until_ms of an event must be a number")
    return event
