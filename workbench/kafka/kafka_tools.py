"""Kafka's own tools behind the port of `queues.tool_words`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.humanize import shell_word

_RATES = {False: "consumer_byte_rate", True: "producer_byte_rate"}


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """See `Tools`; `brokers` is a word of a shell, and `login_file` a path: without it a tool takes the brokers for plaintext."""

    brokers: str
    login_file: str | None = None

    @property
    def to_brokers(self) -> str:
        """See `Tools`."""
        login = f" --command-config {shell_word(self.login_file)}" if self.login_file else ""
        return f"--bootstrap-server {self.brokers}{login}"

    def describe_group(self, group: str) -> str:
        """See `Tools`."""
        return f"kafka-consumer-groups {self.to_brokers} --describe --group {shell_word(group)}"

    def describe_members(self, group: str) -> str:
        """See `Tools`."""
        return f"{self.describe_group(group)} --members --verbose"

    def read_record(self, topic: str, partition: int, offset: int) -> str:
        """See `Tools`."""
        return f"{self._kcat(topic, partition, offset)} -c 1 -J"

    def read_on(self, topic: str, partition: int, offset: int) -> str:
        """See `Tools`."""
        return f"{self.read_record(topic, partition, offset)} -e -X isolation.level=read_committed"

    def commonest_keys(self, topic: str, partition: int) -> str:
        """See `Tools`."""
        return f"{self._kcat(topic, partition, -1000)} -q -e -f '%k\\n' | sort | uniq -c | sort -rn | head -5"

    def set_retention(self, topic: str, milliseconds: int) -> str:
        """See `Tools`."""
        return (
            f"kafka-configs {self.to_brokers} --alter --entity-type topics"
            f" --entity-name {shell_word(topic)} --add-config retention.ms={milliseconds}"
        )

    def list_short(self) -> str:
        """See `Tools`."""
        return f"kafka-topics {self.to_brokers} --describe --under-replicated-partitions"

    def list_leaderless(self) -> str:
        """See `Tools`."""
        return f"kafka-topics {self.to_brokers} --describe --unavailable-partitions"

    def list_quotas(self) -> str:
        """See `Tools`: the tool tells those of users, of client ids and of both only one after the other."""
        each = f"kafka-configs {self.to_brokers} --describe --entity-type $of"
        return f'for of in users clients "users --entity-type clients"; do {each}; done'

    def limit_client(self, client_id: str, bytes_per_second: int, *, writes: bool = False) -> str:
        """See `Tools`."""
        return self._of_client(client_id, f"--add-config {_RATES[writes]}={bytes_per_second}")

    def lift_quota(self, client_id: str, *, writes: bool = False) -> str:
        """See `Tools`."""
        return self._of_client(client_id, f"--delete-config {_RATES[writes]}")

    def add_partitions(self, topic: str, total: int) -> str:
        """See `Tools`."""
        return f"kafka-topics {self.to_brokers} --alter --topic {shell_word(topic)} --partitions {total}"

    def delete_offsets(self, group: str, topic: str) -> str:
        """See `Tools`."""
        return (
            f"kafka-consumer-groups {self.to_brokers} --group {shell_word(group)}"
            f" --topic {shell_word(topic)} --delete-offsets"
        )

    def list_writers(self, topic: str, partition: int) -> str:
        """See `Tools`."""
        return self._transactions(f"describe-producers --topic {shell_word(topic)} --partition {partition}")

    def list_transactions(self) -> str:
        """See `Tools`."""
        return self._transactions("list --duration-filter 60000")

    def abort_transaction(self, words: str) -> str:
        """See `Tools`."""
        return self._transactions(f"abort {words}")

    def reset_from_file(self, group: str) -> str:
        """See `Tools`."""
        return (
            f"kafka-consumer-groups.sh {self.to_brokers} --group {shell_word(group)} "
            "--reset-offsets --from-file plan.csv --dry-run"
        )

    def _kcat(self, topic: str, partition: int, offset: int) -> str:
        login = f" -F {shell_word(str(kcat_file(self.login_file)))}" if self.login_file else ""
        return f"kcat{login} -b {self.brokers} -C -t {shell_word(topic)} -p {partition} -o {offset}"

    def _of_client(self, client_id: str, change: str) -> str:
        return f"kafka-configs {self.to_brokers} --entity-type clients --entity-name {client_id} --alter {change}"

    def _transactions(self, words: str) -> str:
        return f"kafka-transactions {self.to_brokers} {words}"


def kcat_file(login_file: str | Path) -> Path:
    """File with the same login for kcat, which takes librdkafka's properties: beside that of Kafka's own tools."""
    return Path(login_file).with_name("kcat.conf")


def tools(brokers: str, login_file: str | None = None) -> KafkaTools:
    """Tools of a cluster."""
    return KafkaTools(brokers, login_file)
