"""`workbench triage --alert`: the subscription of an alert, and the runbook with this incident's values filled in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.screen import say, tell, tell_page

if TYPE_CHECKING:
    from workbench.triage.engine import Triage

# What is older is judged by what is true now: the alert still fires, and its beginning is in the baseline.
_RECENT = timedelta(hours=1)
_BEFORE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTarget:
    """Target of the alert; command-line options override it."""

    cluster: str | None
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    since: str | None


def asked_by(
    path: Path,
    *,
    cluster: str | None,
    recorded: bool,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    since: str | None,
    now: datetime | None = None,
) -> AlertTarget:
    """Read a webhook's payload and fill in what the options left open.

    Raises:
        UsageError: if it is no webhook.
    """
    from workbench.alerts import read_alerts
    from workbench.humanize import plural, printable

    alerts = read_alerts(path)
    firing = [it for it in alerts if it.firing] or alerts[:1]
    first = firing[0]
    if first.truncated:
        say(f"Alertmanager left {plural(first.truncated, 'alert')} out of this message, so this result is incomplete.")
    if len({it.cluster for it in firing}) > 1:
        say(f"The alerts name several clusters. This triage covers only {printable(first.cluster)}.")
    same = [it for it in firing if it.cluster == first.cluster]
    if not groups and all(it.group for it in same):
        groups = tuple(dict.fromkeys(it.group for it in same))
    if not topics and all(it.topic for it in same):
        topics = tuple(dict.fromkeys(it.topic for it in same))
    begun = min((it.starts_at for it in same if it.starts_at is not None), default=None)
    if since is None and not recorded and begun is not None and (now or datetime.now(UTC)) - begun <= _RECENT:
        since = (begun - _BEFORE).isoformat()
    return AlertTarget(
        cluster=None if recorded else cluster or first.cluster or None, groups=groups, topics=topics, since=since
    )


def show_runbooks(result: Triage, *, bootstrap: str | None) -> None:
    """Print the runbook of each finding that is not healthy, worst first, with its values filled in."""
    from workbench.assets import shipped
    from workbench.runbooks.fill import book_of, filled

    folder = shipped("runbooks")
    for finding in result.findings:
        book = book_of(finding, folder)
        if book is not None:
            tell()
            tell_page(filled(book, finding, bootstrap=bootstrap))
