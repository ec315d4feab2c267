"""Settings of topics, and whether the brokers have an authorizer: what a replay asks besides logs and groups."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.connection import seconds_left
from workbench.kafka.groups import NotListedError, first_to_answer, own_security
from workbench.kafka.wire import Address, addresses
from workbench.kafka.wire_tls_and_login import logged_in
from workbench.queues.replay_port import TopicSettings

_DESCRIBE_ACLS = 29  # version 1
# Any resource, name, pattern, principal, host, operation, permission.
_ANY_RULE = struct.pack(">bhbhhbb", 1, -1, 1, -1, -1, 1, 1)
_SECURITY_DISABLED = 54
_SILENCE_SECONDS = 10.0


def settings_of(kafka: KafkaCluster, topics: Iterable[str], deadline: float) -> dict[str, TopicSettings]:
    """Retention and clean-up of topics. Without permission they are "not known", and the safety checks report it."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    admin = kafka.connect()
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    futures = kafka.ask(
        lambda: admin.describe_configs(resources, request_timeout=seconds_left(deadline)) if resources else {}
    )
    found = {}
    for resource, future in futures.items():
        try:
            entries = kafka.wait(future, deadline)
        except (KafkaException, TimeoutError):
            found[resource.name] = TopicSettings()
            continue
        found[resource.name] = TopicSettings(
            retention_ms=_number(entries, "retention.ms"),
            retention_bytes=_number(entries, "retention.bytes"),
            compacted="compact" in (entries["cleanup.policy"].value or "") if "cleanup.policy" in entries else False,
            appends_time=entries["message.timestamp.type"].value == "LogAppendTime"
            if "message.timestamp.type" in entries
            else None,
            **_timestamp_limits(entries),
        )
    return found


def may_hide(kafka: KafkaCluster, deadline: float) -> bool:
    """Whether the brokers may hide topics from these credentials: those without an authorizer say so, whatever they are asked of it.

    By a request of our own: librdkafka (2.16) takes that answer for an empty list of rules.
    """

    def ask(server: Address, silence: float) -> bool:
        with logged_in(server, own_security(kafka.properties), deadline, silence=silence) as wire:
            answer = wire.ask_old(_DESCRIBE_ACLS, 1, _ANY_RULE)
            kafka.requests += wire.requests
        answer.int32()  # throttle time
        return answer.int16() != _SECURITY_DISABLED

    try:
        return first_to_answer(addresses(kafka.own_servers), _SILENCE_SECONDS, ask, {}) is not False
    except NotListedError:
        return True


def _timestamp_limits(entries: Mapping[str, Any]) -> dict[str, int | None]:
    """Limits of a producer's timestamps; where the broker writes its own, there are none."""
    kind = entries.get("message.timestamp.type")
    if kind is not None and kind.value == "LogAppendTime":
        return {}
    names = {
        "timestamp_before_ms": "message.timestamp.before.max.ms",
        "timestamp_after_ms": "message.timestamp.after.max.ms",
    }
    return {field: _number(entries, name) for field, name in names.items()}


def _number(entries: Mapping[str, Any], name: str) -> int | None:
    try:
        return int(entries[name].value)
    except (KeyError, TypeError, ValueError):
        return None
