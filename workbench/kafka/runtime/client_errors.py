"""Errors of the client: those that no poll resolves, and refused commits that are worth another attempt."""

from __future__ import annotations

from confluent_kafka import KafkaError

# Errors that no further poll resolves, and what to do. As warnings they would leave an idle member.
PERMANENT: dict[int, str] = {
    KafkaError._FATAL: "Restart the service when the cause is fixed.",
    KafkaError._AUTO_OFFSET_RESET: "Commit a position for the group (workbench replay), or set auto.offset.reset to earliest.",
    KafkaError.FENCED_INSTANCE_ID: "Another member has this group.instance.id; each member needs its own.",
    KafkaError.UNRELEASED_INSTANCE_ID: "Another member has this group.instance.id; each member needs its own.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "The principal needs READ and DESCRIBE on the topic.",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "The principal needs READ on the group.",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "All members of a group need a common assignor (partition.assignment.strategy).",
    KafkaError.GROUP_MAX_SIZE_REACHED: "The group has as many members as the broker allows (group.max.size).",
    KafkaError.INVALID_GROUP_ID: "Choose another group.",
    KafkaError.TOPIC_EXCEPTION: "The name of a topic is not valid.",
    KafkaError.UNSUPPORTED_ASSIGNOR: "The broker does not know the assignor (group.remote.assignor).",
    KafkaError.INVALID_REGULAR_EXPRESSION: "The broker cannot read a pattern among the topics.",
}

# Refusals of a commit that end while the caller waits. The epoch of a KIP-848 member is stale after the broker has answered a heartbeat
# whose answer has not arrived (the broker was slow, for example); the client's next heartbeat ends that, and revoked partitions stay
# the member's own until it has released them. librdkafka does not repeat such commits.
TRANSIENT = frozenset(
    {
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
    }
)
