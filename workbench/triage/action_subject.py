"""The subscription that an action targets, and the commands to inspect it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from workbench.humanize import shell_word
from workbench.queues.tool_words import Tools, tools_of

_A_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Recording:
    """A capture that is read again: what its commands can be about.

    Attributes:
        folder: of the capture.
        end: of its window.
        is_known: whether the reader's settings have its cluster.
    """

    folder: Path
    end: datetime
    is_known: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """The subscription that the commands target; `login_file`: of `Cluster`, `system`: of `queues.systems`."""

    cluster: str
    group: str
    topic: str
    since: datetime | None = None
    bootstrap: str | None = None
    recording: Recording | None = None
    system: str = "kafka"
    login_file: str | None = None

    @property
    def tools(self) -> Tools:
        """Commands of the queue's own tools."""
        return tools_of(self.bootstrap, login_file=self.login_file, system=self.system)

    @property
    def when(self) -> str:
        """Onset in words, with a leading blank."""
        return f" at {self.since:%H:%M:%S} UTC" if self.since is not None else ""

    @property
    def triage(self) -> str:
        """Command that repeats the triage."""
        if self.recording is not None:
            return (
                f"workbench triage --capture {shell_word(str(self.recording.folder))} --group {shell_word(self.group)}"
            )
        return f"workbench triage --cluster {shell_word(self.cluster)} --group {shell_word(self.group)}"

    @property
    def changes(self) -> str | None:
        """Command that lists what was deployed or changed in the day before; None if the reader has no such list."""
        if self.recording is not None and not self.recording.is_known:
            return None
        before = (
            "24h" if self.recording is None else f"{(self.since or self.recording.end) - _A_DAY:%Y-%m-%dT%H:%M:%SZ}"
        )
        return f"workbench events list --cluster {shell_word(self.cluster)} --since {before}"

    @property
    def describe(self) -> str:
        """Command for the queue's own view of the group."""
        return self.tools.describe_group(self.group)

    @property
    def members(self) -> str:
        """Command for the queue's own view of the members."""
        return self.tools.describe_members(self.group)
