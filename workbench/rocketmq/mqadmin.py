"""RocketMQ's `mqadmin` behind the port of `queues.tool_words`; options read in its source (5.3). What it has no command for is None."""

from __future__ import annotations

from workbench.humanize import shell_word

_HOUR_MS = 3_600_000


class RocketMqTools:
    """See `Tools`. Names of the name servers and of the cluster are variables to set: nobody here knows them."""

    @property
    def to_brokers(self) -> None:
        """See `Tools`: by name servers, in each command."""

    def describe_group(self, group: str) -> str:
        """See `Tools`."""
        return f"{_mqadmin('consumerProgress')} -g {shell_word(group)}"

    def describe_members(self, group: str) -> str:
        """See `Tools`."""
        return f"{_mqadmin('consumerConnection')} -g {shell_word(group)}"

    def read_record(self, topic: str, partition: int, offset: int) -> str:
        """See `Tools`; which broker has a queue is not measured."""
        where = f'-b "$BROKER" -t {shell_word(topic)} -i {partition} -o {offset}'
        return f"{_mqadmin('queryMsgByOffset')} {where}"

    def read_on(self, topic: str, partition: int, offset: int) -> None:
        """See `Tools`: consumers are given no half messages, and offsets of others are all there."""

    def commonest_keys(self, topic: str, partition: int) -> None:
        """See `Tools`."""

    def set_retention(self, topic: str, milliseconds: int) -> str:  # noqa: ARG002 - brokers keep all topics equally long
        """See `Tools`: of all topics."""
        hours = -(-milliseconds // _HOUR_MS)
        return f'{_mqadmin("updateBrokerConfig")} -c "$CLUSTER" -k fileReservedTime -v {hours}'

    def list_short(self) -> None:
        """See `Tools`."""

    def list_leaderless(self) -> None:
        """See `Tools`."""

    def list_quotas(self) -> str:
        """See `Tools`: there are none; this shows what brokers hold back of reads of old messages (from 5.1.2 on)."""
        return f'{_mqadmin("getColdDataFlowCtrInfo")} -c "$CLUSTER"'

    def limit_client(self, client_id: str, bytes_per_second: int, *, writes: bool = False) -> None:
        """See `Tools`."""

    def lift_quota(self, client_id: str, *, writes: bool = False) -> None:
        """See `Tools`."""

    def add_partitions(self, topic: str, total: int) -> None:
        """See `Tools`: queues are set for each broker, and how many there are is not measured."""

    def delete_offsets(self, group: str, topic: str) -> None:
        """See `Tools`: only those of all topics of a group can be."""

    def list_writers(self, topic: str, partition: int) -> None:
        """See `Tools`."""

    def list_transactions(self) -> None:
        """See `Tools`."""

    def abort_transaction(self, words: str) -> None:
        """See `Tools`."""


def _mqadmin(command: str) -> str:
    return f'mqadmin {command} -n "$NAMESRV"'


def tools(brokers: str, login_file: str | None = None) -> RocketMqTools:  # noqa: ARG001 - Kafka's
    """Tools of a cluster."""
    return RocketMqTools()
