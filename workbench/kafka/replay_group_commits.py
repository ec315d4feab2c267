"""Commits of one group for a replay: read until the deadline, and never taken for missing where they cannot be read."""

from __future__ import annotations

import time

from workbench.errors import SourceUnreachableError
from workbench.kafka.connection import KafkaConnection, is_over
from workbench.kafka.groups import NotListedError
from workbench.kafka.librdkafka_errors import group_right, is_absent, is_denied, is_loading
from workbench.kafka.offset_fetch import FetchLimits, read_commits
from workbench.queues.replay_port import KeptCommit
from workbench.queues.snapshot_views import Partition

_ANSWER_SECONDS = 3.0  # for a coordinator's first answer; twice as long each time after that
_RETRY_PAUSE_SECONDS = 0.3


def kept_commits_of_group(kafka: KafkaConnection, group: str, deadline: float) -> dict[Partition, KeptCommit]:
    """Committed offsets of a group with their metadata, of one answer.

    Partitions without a commit are left out, and a group that does not exist has none. Until the monotonic deadline a coordinator that
    moves, loads or is lost is looked for, and asked, again.

    Raises:
        SourceUnreachableError: if some commit cannot be read, or the group may not be described.
    """
    kafka.first_answer(deadline)  # a refused login is told by its name
    limits = FetchLimits.until(deadline, silence_seconds=_ANSWER_SECONDS)
    try:
        found = read_commits(kafka.own_servers, kafka.properties, [group], limits)
    except NotListedError:  # librdkafka can do what our own requests cannot
        return _by_librdkafka(kafka, group, deadline)
    kafka.requests += found.requests
    if found.denied:
        raise kafka.refused("Group authorization failed", needs=group_right(group))
    for words in found.missing.values():
        raise SourceUnreachableError(
            f"The commits of group {group!r} cannot be read: {words}.", hint="Try again once every broker answers."
        )
    for (_, topic, number), words in found.errors.items():
        raise _unreadable(group, topic, number, words)
    return {
        (topic, number): KeptCommit(at, found.metadata.get((which, topic, number), b""))
        for (which, topic, number), at in found.offsets.items()
        if at is not None
    }


def _by_librdkafka(kafka: KafkaConnection, group: str, deadline: float) -> dict[Partition, KeptCommit]:
    from confluent_kafka import ConsumerGroupTopicPartitions as Ask
    from confluent_kafka import KafkaException

    while True:
        try:
            answer = kafka.answer(
                lambda admin, seconds: admin.list_consumer_group_offsets([Ask(group)], request_timeout=seconds)[group],
                deadline,
            )
            break
        except (KafkaException, TimeoutError) as error:
            if is_absent(error):
                return {}
            if not is_loading(error) or is_over(deadline):
                raise kafka.unreachable(error, needs=group_right(group) if is_denied(error) else None) from None
            time.sleep(_RETRY_PAUSE_SECONDS)
    for part in answer.topic_partitions:
        if part.error is not None:
            raise _unreadable(group, part.topic, part.partition, part.error.str())
    return {
        (part.topic, part.partition): KeptCommit(part.offset, (part.metadata or "").encode(errors="surrogateescape"))
        for part in answer.topic_partitions
        if part.offset >= 0
    }


def _unreadable(group: str, topic: str, partition: int, words: str) -> SourceUnreachableError:
    """An unreadable commit must not look like a missing one."""
    return SourceUnreachableError(
        f"The committed offset of group {group!r} on {topic}-{partition} cannot be read: {words}."
    )
