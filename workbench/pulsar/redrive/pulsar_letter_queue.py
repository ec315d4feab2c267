"""What a redrive asks a Pulsar, besides the gateway."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.errors import UsageError
from workbench.pulsar.connection import PulsarAccess
from workbench.pulsar.policies import subscriptions_expire_seconds
from workbench.pulsar.redrive.letter_producer import MOST_ON_THE_WAY, PulsarSink
from workbench.pulsar.redrive.letter_reader import PulsarLetters
from workbench.pulsar.redrive.topics_and_progress import PulsarLetterGateway
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.queues.replay_port import Quotas
from workbench.redrive.groups_reading_targets import Readers
from workbench.redrive.planfile import RedrivePlan, To
from workbench.settings import Cluster

_MOST_BYTES = 5 << 20  # of a message (maxMessageSize), if no broker tells


class PulsarLetterQueue:
    """See `LetterQueue`."""

    promise = (
        f"Pulsar's transactions are not used: after a kill, up to {MOST_ON_THE_WAY} letters that were on their way may be "
        "produced twice. What the targets have by then is not sent again."
    )

    def __init__(self, cluster: Cluster) -> None:
        self.gateway = PulsarLetterGateway(cluster)
        self._brokers = PulsarBrokers(access_to(cluster))

    def letters(self, topic: str) -> PulsarLetters:
        """See `LetterQueue`."""
        return PulsarLetters(self._brokers, topic, self.gateway.place)

    def limit_of(self, topic: str) -> int:  # noqa: ARG002 - it is the brokers'
        """See `LetterQueue`."""
        return _MOST_BYTES

    def position_kept_seconds(self, plan: RedrivePlan) -> float | None:
        """See `LetterQueue`: properties of a subscription stay as long as it does. Of messages, the targets tell what was produced;
        a service that was posted to tells nothing.
        """
        if plan.destination.kind is not To.HTTP:
            return math.inf
        topic, _ = self.gateway.place(plan.topic, 0)
        return subscriptions_expire_seconds(self.gateway.admin, topic)

    def groups(self) -> list[str]:
        """See `LetterQueue`: plans that have letters of the topics that were asked for."""
        return self.gateway.plans()

    def readers(self, topics: Sequence[str]) -> Readers | None:  # noqa: ARG002 - a mark-delete position is no offset of a reader
        """See `LetterQueue`."""
        return None

    def lacking(self, topic: str, targets: Sequence[str], name: str) -> tuple[str, ...]:  # noqa: ARG002 - nothing tells it
        """See `LetterQueue`."""
        return ()

    def untold(self) -> str | None:
        """See `LetterQueue`: nothing is told of permissions, and its documents say so."""
        return None

    def quotas(self) -> Quotas | None:
        """See `LetterQueue`."""
        return None

    def sink(self, plan: RedrivePlan) -> PulsarSink:
        """See `LetterQueue`."""
        return PulsarSink(plan, self.gateway, self._brokers)

    def positions(self, plan: RedrivePlan) -> PulsarSink:
        """See `LetterQueue`."""
        return self.sink(plan)


def access_to(cluster: Cluster) -> PulsarAccess:
    """Where clients of a cluster connect.

    Raises:
        UsageError: if the settings do not say it.
    """
    own = cluster.pulsar
    if own.service_url is None:
        raise UsageError(
            f"The cluster {cluster.name!r} has no pulsar.service_url in the settings: messages are read and sent there.",
            hint="Add it to workbench.toml.",
        )
    return PulsarAccess.of(own.service_url, token=own.token, ca_file=own.ca_file, seconds=cluster.timeout_seconds)
