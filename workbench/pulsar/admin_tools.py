"""Pulsar's own tool, pulsar-admin, behind the port of `queues.dispatching_queues`. It finds the cluster by its own configuration."""

from __future__ import annotations

from workbench.humanize import shell_word
from workbench.pulsar.topic_names import WHOLE


class PulsarTools:
    """See `DispatchTools`."""

    def topic_stats(self, topic: str, partition: int) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topics stats --get-precise-backlog {_named(topic, partition)}"

    def internal_stats(self, topic: str, partition: int) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topics stats-internal {_named(topic, partition)}"

    def show_entry(self, topic: str, partition: int, position: str) -> str:
        """See `DispatchTools`."""
        ledger, _, entry = position.partition(":")
        return f"pulsar-admin topics get-message-by-id {_named(topic, partition)} -l {ledger} -e {entry}"

    def peek(self, topic: str, partition: int, subscription: str) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topics peek-messages {_named(topic, partition)} -s {shell_word(subscription)} -n 3"

    def unload(self, topic: str, partition: int) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topics unload {_named(topic, partition)}"

    def drop_subscription(self, topic: str, subscription: str) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topics unsubscribe {_named(topic, WHOLE)} -s {shell_word(subscription)}"

    def unacked_limit(self, topic: str, most: int) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topicPolicies set-max-unacked-messages-per-subscription {_named(topic, WHOLE)} -m {most}"

    def show_limit(self, topic: str) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topicPolicies get-subscription-dispatch-rate --applied {_named(topic, WHOLE)}"

    def set_limit(self, topic: str, per_second: int) -> str:
        """See `DispatchTools`."""
        return (
            f"pulsar-admin topicPolicies set-subscription-dispatch-rate {_named(topic, WHOLE)}"
            f" --msg-dispatch-rate {per_second} --dispatch-rate-period 1"
        )

    def set_ttl(self, topic: str, seconds: int) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topicPolicies set-message-ttl {_named(topic, WHOLE)} --ttl {seconds}"

    def show_quota(self, topic: str) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topicPolicies get-backlog-quota --applied {_named(topic, WHOLE)}"

    def show_load(self) -> str:
        """See `DispatchTools`."""
        return "pulsar-admin broker-stats load-report"

    def set_balance(self, *, on: bool) -> str:
        """See `DispatchTools`."""
        name = "loadBalancerSheddingEnabled"
        return f"pulsar-admin brokers update-dynamic-config --config {name} --value {str(on).lower()}"

    def show_persistence(self, topic: str) -> str:
        """See `DispatchTools`."""
        return f"pulsar-admin topicPolicies get-persistence {_named(topic, WHOLE)}"

    def set_persistence(self, topic: str) -> str:
        """See `DispatchTools`."""
        return (
            f"pulsar-admin topicPolicies set-persistence {_named(topic, WHOLE)} -r 0.01"
            " -e ENSEMBLE -w WRITE_QUORUM -a ACK_QUORUM"
        )

    def show_bookies(self) -> str:
        """See `DispatchTools`."""
        return "pulsar-admin bookies list-bookies"


def dispatch_tools() -> PulsarTools:
    """The words of pulsar-admin."""
    return PulsarTools()


def _named(topic: str, partition: int) -> str:
    return shell_word(f"persistent://{topic}" + ("" if partition == WHOLE else f"-partition-{partition}"))
