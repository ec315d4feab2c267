"""Port to the words of a queue's own tools: commands of actions and runbooks. They are shown, and nobody here runs them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from workbench.humanize import shell_word

_ROOMS = {"kafka": "workbench.kafka.kafka_tools", "rocketmq": "workbench.rocketmq.mqadmin"}  # each has `tools`


class Tools(Protocol):
    """Commands for one cluster; names are words of a shell. Each says what it shows or changes; None: the queue has nothing like it."""

    @property
    def to_brokers(self) -> str | None:
        """Options by which each of its tools reaches the brokers."""

    def describe_group(self, group: str) -> str:
        """Where a group is, and how far behind."""

    def describe_members(self, group: str) -> str:
        """Who is in a group, and what each reads."""

    def read_record(self, topic: str, partition: int, offset: int) -> str | None:
        """Print the record at an offset, with its key and headers."""

    def read_on(self, topic: str, partition: int, offset: int) -> str | None:
        """Print the next record from an offset on that a consumer of committed transactions is given; nothing if there is none."""

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


class ToolLogin(NamedTuple):
    """A file with a login for tools.

    Attributes:
        text: its content.
        notes: what a person must know, or write by hand, a sentence each.
    """

    text: str
    notes: tuple[str, ...]


def logins_of(
    place: Path, written: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> Mapping[Path, ToolLogin]:
    """Files with the login of a Kafka, for its own tools and for kcat.

    Args:
        place: of the file for Kafka's own tools, which has no secret.
        written: properties as the settings have them, with places for secrets.
        given: properties with the secrets, for a file of kcat beside it; None: without that file.
    """
    found: Mapping[Path, ToolLogin] = import_module("workbench.kafka.tool_login").login_files(place, written, given)
    return found


def tools_of(bootstrap: str | None, *, login_file: str | None = None, system: str = "kafka") -> Tools:
    """Tools of a cluster.

    Args:
        bootstrap: its address; None: a variable to set.
        login_file: of `Cluster.login_file`.
        system: of `queues.systems`.
    """
    brokers = shell_word(bootstrap) if bootstrap else '"$BOOTSTRAP"'
    found: Tools = import_module(_ROOMS[system]).tools(brokers, login_file)
    return found
