"""The subscription that an action targets, and the commands to inspect it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from workbench.humanize import shell_word


@dataclass(frozen=True, slots=True)
class Subject:
    """The subscription that the commands target."""

    cluster: str
    group: str
    topic: str
    since: datetime | None = None
    bootstrap: str | None = None

    @property
    def brokers(self) -> str:
        """Bootstrap servers as a shell word; a variable to set if they are not known."""
        return shell_word(self.bootstrap) if self.bootstrap else '"$BOOTSTRAP"'

    @property
    def when(self) -> str:
        """Onset in words, with a leading blank."""
        return f" at {self.since:%H:%M:%S} UTC" if self.since is not None else ""

    @property
    def triage(self) -> str:
        """Command that repeats the triage."""
        return f"workbench triage --cluster {shell_word(self.cluster)} --group {shell_word(self.group)}"

    @property
    def changes(self) -> str:
        """Command that lists what was deployed or changed."""
        return f"workbench events list --cluster {shell_word(self.cluster)} --since 24h"

    @property
    def describe(self) -> str:
        """Command for Kafka's own view of the group."""
        return f"kafka-consumer-groups --bootstrap-server {self.brokers} --describe --group {shell_word(self.group)}"

    @property
    def members(self) -> str:
        """Command for Kafka's own view of the members."""
        return f"{self.describe} --members --verbose"
