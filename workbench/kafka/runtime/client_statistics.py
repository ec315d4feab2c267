"""librdkafka statistics: the parts that triage needs (STATISTICS.md: times in µs, `throttle` in ms)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.kafka.clients_without_brokers import are_none_left
from workbench.runtime.source import BrokerHealth, SourceHealth

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class _Window(_Part):
    avg: _Finite = 0.0
    cnt: _Int64 = 0


class _Broker(_Part):
    nodeid: _Int64 = -1
    nodename: str = ""
    source: str = ""
    rxidle: _Int64 = -1
    rtt: _Window = _Window()
    throttle: _Window = _Window()


class _Partition(_Part):
    desired: bool = False
    unknown: bool = False
    fetchq_cnt: _Int64 | None = None


class _Topic(_Part):
    topic: str
    partitions: dict[_Int64, _Partition] = {}


class _Statistics(_Part):
    age: _Int64 = 0
    brokers: dict[str, _Broker] = {}
    topics: dict[str, _Topic] = {}


def parse_statistics(text: str, *, taken_at: float, made_seconds: float = 0.0) -> SourceHealth | None:
    """Parse the client's statistics; None if they are invalid, because an error here would end the polling member.

    Args:
        made_seconds: how long it took to make the client.
    """
    try:
        found = _Statistics.model_validate_json(text)
    except ValidationError:
        return None
    brokers: dict[str, BrokerHealth] = {}
    heartbeat_age = None
    for broker in found.brokers.values():
        if broker.source == "logical":
            if broker.nodename and broker.rxidle >= 0:
                heartbeat_age = broker.rxidle / 1e6
        elif broker.nodeid >= 0:
            brokers[str(broker.nodeid)] = BrokerHealth(
                rtt_seconds=broker.rtt.avg / 1e6 if broker.rtt.cnt else None,
                throttle_seconds=broker.throttle.avg / 1e3 if broker.throttle.cnt else 0.0,
            )
    fetch_queue = {
        (topic.topic, number): partition.fetchq_cnt
        for topic in found.topics.values()
        for number, partition in topic.partitions.items()
        if number >= 0 and partition.desired and not partition.unknown and partition.fetchq_cnt is not None
    }
    return SourceHealth(
        taken_at=taken_at,
        heartbeat_age=heartbeat_age,
        brokers=brokers,
        fetch_queue=fetch_queue,
        is_stranded=are_none_left(
            (broker.source for broker in found.brokers.values()), age_seconds=found.age / 1e6, made_seconds=made_seconds
        ),
    )
