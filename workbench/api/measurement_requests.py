"""Validated requests for measurements; the same for commands, panels and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from workbench.errors import UsageError, WindowError
from workbench.settings import Windows
from workbench.window import Window, parse_duration, parse_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The window as typed.

    Attributes:
        since, until: timestamps with a time zone, or `15m ago`; None: the length in the settings, and now.
        baseline: a duration such as `1h`; None: the length in the settings.
    """

    since: str | None = None
    until: str | None = None
    baseline: str | None = None

    def __bool__(self) -> bool:
        return any((self.since, self.until, self.baseline))

    def window(self, lengths: Windows, *, now: datetime | None = None) -> Window:
        """Parse the window; it ends now unless `until` is given.

        Raises:
            WindowError: if a timestamp or duration is invalid or has no time zone, or the order is wrong.
        """
        now = now or datetime.now(UTC)
        end = parse_instant(self.until, now=now) if self.until else now
        length = parse_duration(self.baseline) if self.baseline else lengths.baseline
        if self.since is None:
            return Window.ending(end, length=lengths.length, baseline=length)
        return _window(parse_instant(self.since, now=now), end, length)

    def window_in(self, recorded: Window) -> Window:
        """Parse the window within a recording: `15m ago` means before the recording's end.

        Raises:
            WindowError: as `window`.
        """
        if not self:
            return recorded
        end = parse_instant(self.until, now=recorded.end) if self.until else recorded.end
        start = parse_instant(self.since, now=recorded.end) if self.since else recorded.start
        return _window(start, end, parse_duration(self.baseline) if self.baseline else Windows().baseline)


def _window(start: datetime, end: datetime, baseline: timedelta) -> Window:
    try:
        return Window(baseline_start=start - baseline, start=start, end=end)
    except OverflowError:
        raise WindowError("The baseline starts before year 1.", hint="Shorten it with --baseline.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """Which measurements to use: of a cluster of the settings or of a capture, exactly one of the two.

    Attributes:
        groups, topics: only these; empty: all.
        times: the window.
        observe: without a Prometheus: record the cluster for this time first, such as `60s`.
        config: the settings file; None: the default one.

    Raises:
        UsageError: if the fields contradict each other.
    """

    cluster: str | None = None
    capture: Path | None = None
    groups: Sequence[str] = ()
    topics: Sequence[str] = ()
    times: Times = Times()
    observe: str | None = None
    config: Path | None = None

    def __post_init__(self) -> None:
        if (self.cluster is None) == (self.capture is None):
            raise UsageError(
                "Give either --cluster or --capture.", hint="A cluster from workbench.toml, or the folder of a capture."
            )
        if self.observe is not None and self.capture is not None:
            raise UsageError("--observe records a live cluster; a capture is already recorded.")
        if self.observe is not None and self.times:
            raise UsageError("--observe records from now on; --since, --until and --baseline select the past.")
