"""Port to the words of a queue's own tools: commands of actions and runbooks. They are shown, and nobody here runs them."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

_ROOMS = {"kafka": "workbench.kafka.kafka_tools", "rocketmq": "workbench.rocketmq.mqadmin"}  # each has `tools`


class Tools(Protocol):
    """Commands for one cluster; names are words of a shell. Each says what it shows or changes; None: the queue has nothing like it."""

    def describe_group(self, group: str) -> str:
        """Where a group is, and how far behind."""

    def describe_members(self, group: str) -> str:
        """Who is in a group, and what each reads."""

    def commonest_keys(self, topic: str, partition: int) -> str | None:
        """Count the keys of a partition's last 1,000 records."""

    def set_retention(self, topic: str, milliseconds: int) -> str | None:
        """Keep the records of a topic for longer."""

    def list_short(self) -> str | None:
        """Partitions that lack a replica in sync, with all of their replicas."""

    def list_leaderless(self) -> str | None:
        """Partitions without a leader, with all of their replicas."""

    def list_quotas(self) -> str | None:
        """All quotas: of users, of clients, and of both."""

    def limit_client(self, client_id: str, bytes_per_second: int, *, writes: bool = False) -> str | None:
        """Let a client id read (or write) at most so much from each broker; the id is a word of a shell already."""

    def lift_quota(self, client_id: str, *, writes: bool = False) -> str | None:
        """Take the read (or write) quota of a client id away; the id is a word of a shell already."""

    def add_partitions(self, topic: str, total: int) -> str | None:
        """Give a topic so many partitions."""

    def delete_offsets(self, group: str, topic: str) -> str | None:
        """Forget what a group has committed of a topic."""

    def list_writers(self, topic: str, partition: int) -> str | None:
        """Producers that have a transaction open in a partition."""

    def list_transactions(self) -> str | None:
        """Transactions that have been open for a minute."""

    def abort_transaction(self, words: str) -> str | None:
        """End one; `words` say which, as `list_writers` has shown it."""

    def reset_from_file(self, group: str) -> str:
        """Commit the offsets of `plan.csv` for a group; a dry run. Of queues that replays are planned for."""


def tools_of(brokers: str, *, system: str = "kafka") -> Tools:
    """Tools of a cluster.

    Args:
        brokers: its address, as a word of a shell.
        system: of `queues.systems`.
    """
    found: Tools = import_module(_ROOMS[system]).tools(brokers)
    return found
