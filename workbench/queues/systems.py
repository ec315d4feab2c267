"""Which queue a cluster is, and the adapters of its room: the one place that knows their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from workbench.errors import UsageError
from workbench.queues.observer import Observer
from workbench.queues.replay_port import Gateway, Ranges
from workbench.queues.snapshot_views import Partition
from workbench.settings import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SYSTEMS = {
    "kafka": "workbench.kafka.kafka_adapter",
    "pulsar": "workbench.pulsar.pulsar_adapter",
    "rocketmq": "workbench.rocketmq.rocketmq_adapter",
}  # each has SYSTEM
_ADDRESSES = {"kafka": "bootstrap", "pulsar": "pulsar.admin_url"}  # a queue without one refuses by itself

SYSTEM_NAMES = {"kafka": "Kafka", "pulsar": "Pulsar", "rocketmq": "RocketMQ"}  # for people

COUNT_FROM_ZERO = frozenset({"kafka"})  # the records of a log have the positions 0, 1, 2 and so on

# What cannot be done there, and what can; `{what}` is a phrase with its verb, such as "Recording does".
_REFUSALS = {
    "pulsar": (
        "{what} not work on a Pulsar yet: {name!r} is one.",
        "What works: workbench triage --cluster CLUSTER, workbench snapshot --cluster CLUSTER, and workbench pulsar --help",
    ),
    "rocketmq": (
        "{what} not work on a RocketMQ, which Workbench knows by its metrics alone: {name!r} is one.",
        "What works: workbench triage --cluster CLUSTER, and workbench report run health --cluster CLUSTER",
    ),
}

# Counts the records in offset ranges, in this process.
CountRecords = Callable[[Mapping[Partition, tuple[int, int]]], Mapping[Partition, int]]


class System(Protocol):
    """The adapters of one queue."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> Observer:
        """What the cluster tells of its subscriptions.

        Args:
            seconds: total time limit of a request; None: the cluster's `timeout_seconds`.
        """

    def gateway(self, cluster: Cluster) -> Gateway:
        """What a replay reads, and the two operations that change a group."""

    def counter(self, cluster: Cluster) -> CountRecords:
        """Counts records in this process; for the few at the end of a range."""

    def read_records(self, spark: SparkSession, cluster: Cluster, ranges: Ranges, columns: Sequence[str]) -> DataFrame:
        """Records of offset ranges, with these columns. Joins no group, commits nothing."""

    def letters(self, cluster: Cluster, topic: str, *, seconds: float = 30.0, batch: int = 5_000) -> Any:
        """`redrive.redrive_ports.LetterReader` of a topic."""

    def letter_queue(self, cluster: Cluster) -> Any:
        """`redrive.redrive_ports.LetterQueue` of a cluster."""


def not_there(cluster: Cluster, what: str) -> UsageError:
    """Error of something that does not work on the queue of a cluster, which is not a Kafka.

    Args:
        what: with its verb, such as "Recording does".
    """
    text, hint = _REFUSALS[cluster.system]
    return UsageError(text.format(what=what, name=cluster.name), hint=hint)


class NotThere:
    """A `System` of which nothing works yet: each adapter is a refusal, and a queue's own has what works in its place."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> Any:  # noqa: ARG002 - the port's
        """Refuse.

        Raises:
            UsageError: always, as all that follow.
        """
        raise not_there(cluster, "Asking the queue itself for its groups does")

    def gateway(self, cluster: Cluster) -> Any:
        """See `observer`."""
        raise not_there(cluster, "Looking up positions does")

    def counter(self, cluster: Cluster) -> Any:
        """See `observer`."""
        raise not_there(cluster, "Counting records does")

    def read_records(self, spark: Any, cluster: Cluster, *_: Any, **__: Any) -> Any:  # noqa: ARG002 - the port's
        """See `observer`."""
        raise not_there(cluster, "Reading records does")

    def letters(self, cluster: Cluster, *_: Any, **__: Any) -> Any:
        """See `observer`."""
        raise not_there(cluster, "Reading dead letters does")

    def letter_queue(self, cluster: Cluster) -> Any:
        """See `observer`."""
        raise not_there(cluster, "Redrive of dead letters does")


def own_part(system: str, name: str) -> ModuleType | None:
    """The module of a queue's own in another room, such as "workbench.cli.replay_{}"; None if what is there fits it."""
    module = name.format(system)
    return import_module(module) if find_spec(module) is not None else None


def own_parts(name: str) -> dict[str, ModuleType]:
    """Of every queue that has one: see `own_part`."""
    return {it: part for it in SYSTEMS if (part := own_part(it, name)) is not None}


def refuse_without_metrics(cluster: Cluster, what: str) -> None:
    """Refuse what reads a cluster's metrics, if this queue's are not read.

    Raises:
        UsageError: as `not_there`.
    """
    if cluster.is_asked:
        raise not_there(cluster, what)


def system_of(cluster: Cluster) -> System:
    """The queue of a cluster.

    Raises:
        UsageError: if the settings have no address of it.
    """
    if cluster.address is None and cluster.system in _ADDRESSES:
        raise UsageError(
            f"The cluster {cluster.name!r} has no {_ADDRESSES[cluster.system]} in the settings.",
            hint="Add it to workbench.toml.",
        )
    found: System = import_module(SYSTEMS[cluster.system]).SYSTEM
    return found


def gateway_of(cluster: Cluster) -> Gateway:
    """The gateway of a cluster.

    Raises:
        UsageError: as `system_of`.
    """
    return system_of(cluster).gateway(cluster)


def counter_of(cluster: Cluster) -> CountRecords:
    """The counter of a cluster.

    Raises:
        UsageError: as `system_of`.
    """
    return system_of(cluster).counter(cluster)
