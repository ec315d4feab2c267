"""Port to the words of a queue's own tools: commands of actions and runbooks. They are shown, and nobody here runs them."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from workbench.queues.systems import SYSTEMS


class Tools(Protocol):
    """Commands for one cluster; names are words of a shell. Each says what it shows or changes."""

    def describe_group(self, group: str) -> str:
        """Where a group is, and how far behind."""

    def set_retention(self, topic: str, milliseconds: int) -> str:
        """Keep the records of a topic for longer."""

    def list_short(self) -> str:
        """Partitions that lack a replica in sync, with all of their replicas."""

    def list_leaderless(self) -> str:
        """Partitions without a leader, with all of their replicas."""

    def list_quotas(self) -> str:
        """All quotas: of users, of clients, and of both."""

    def limit_client(self, client_id: str, bytes_per_second: int, *, writes: bool = False) -> str:
        """Let a client id read (or write) at most so much from each broker; the id is a word of a shell already."""

    def lift_quota(self, client_id: str, *, writes: bool = False) -> str:
        """Take the read (or write) quota of a client id away; the id is a word of a shell already."""

    def add_partitions(self, topic: str, total: int) -> str:
        """Give a topic so many partitions."""

    def delete_offsets(self, group: str, topic: str) -> str:
        """Forget what a group has committed of a topic."""

    def list_writers(self, topic: str, partition: int) -> str:
        """Producers that have a transaction open in a partition."""

    def list_transactions(self) -> str:
        """Transactions that have been open for a minute."""

    def abort_transaction(self, words: str) -> str:
        """End one; `words` say which, as `list_writers` has shown it."""

    def reset_from_file(self, group: str) -> str:
        """Commit the offsets of `plan.csv` for a group; a dry run."""


def tools_of(brokers: str, *, system: str = "kafka") -> Tools:
    """Tools of a cluster.

    Args:
        brokers: its address, as a word of a shell.
    """
    room = SYSTEMS[system].rpartition(".")[0]
    found: Tools = import_module(f"{room}.tools").tools(brokers)
    return found
