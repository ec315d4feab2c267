"""`workbench triage --alert`: the subscription of an alert, and the runbook with this incident's values filled in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ConfigError
from workbench.safe_output import say, tell, tell_page

if TYPE_CHECKING:
    from workbench.alerts import Names
    from workbench.triage.triage_engine import Triage

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
    config: Path | None = None,
    now: datetime | None = None,
) -> AlertTarget:
    """Read a webhook's payload and fill in what the options left open.

    Raises:
        UsageError: if it is no webhook.
    """
    from workbench.alerts import left_out, read_message, told
    from workbench.humanize import listed, printable

    message = read_message(path, names=_names(config, recorded=recorded))
    firing = [it for it in message.alerts if it.firing] or list(message.alerts[:1])
    first = firing[0]
    for text in left_out(message):
        say(text)
    if len({it.cluster for it in firing}) > 1:
        say(f"The alerts name several clusters. This triage covers only {printable(first.cluster)}.")
    same = [it for it in firing if it.cluster == first.cluster]
    for text in told(same):
        say(text)
    if not topics and all(it.topic for it in same):
        topics = tuple(dict.fromkeys(it.topic for it in same))
    if not groups and all(it.group for it in same):
        groups = tuple(dict.fromkeys(it.group for it in same))
    elif not groups:
        covered = f"every group that reads {listed(topics)}" if topics else "the whole cluster"
        say(
            f"An alert here names no consumer group that is known, so this triage covers {covered}. "
            "Give --group, or name the label under [alerts] in workbench.toml."
        )
    begun = min((it.starts_at for it in same if it.starts_at is not None), default=None)
    if since is None and not recorded and begun is not None and (now or datetime.now(UTC)) - begun <= _RECENT:
        since = (begun - _BEFORE).isoformat()
    return AlertTarget(
        cluster=None if recorded else cluster or first.cluster or None, groups=groups, topics=topics, since=since
    )


def _names(config: Path | None, *, recorded: bool) -> Names:
    """How alerts name things, by the settings; a recording is analysed without them, too.

    Raises:
        ConfigError: if the settings cannot be used, and are needed.
    """
    from workbench.alerts import NO_NAMES, Names
    from workbench.settings import load_settings

    try:
        return Names.of(load_settings(config))
    except ConfigError:
        if config is not None or not recorded:
            raise
        return NO_NAMES


def show_runbooks(result: Triage, *, bootstrap: str | None, login_file: str | None = None) -> None:
    """Print the runbook of each finding that is not healthy, worst first, with its values filled in."""
    from workbench.runbooks.filled_runbook import book_of, filled
    from workbench.shipped_files import shipped

    folder = shipped("runbooks")
    for finding in result.findings:
        book = book_of(finding, folder)
        if book is not None:
            tell()
            tell_page(filled(book, finding, bootstrap=bootstrap, login_file=login_file))
