"""Current groups, members and lag, from Kafka itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import ExitCode
from workbench.humanize import iso_instant
from workbench.queues.group_kinds import cannot_judge

if TYPE_CHECKING:
    from workbench.queues.observer import Ages
    from workbench.queues.snapshot_views import GroupView, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    """Snapshot of a cluster.

    Attributes:
        cluster: its name in the settings.
        groups: groups, members, commits and log end offsets.
        ranked: a row for each subscription, largest lag first, if requested; groups without one come last, with topic None.
        incomplete: what could not be read, a sentence each.
    """

    cluster: str
    groups: Snapshot
    ranked: list[dict[str, Any]] | None
    incomplete: tuple[str, ...]

    @property
    def exit_code(self) -> ExitCode:
        """4 if something could not be read in time, else 0."""
        return ExitCode.EVIDENCE if self.incomplete else ExitCode.OK

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """One row per partition with a commit, or of a share group: kind, offsets, lag in messages (None: not known), owner.

        `committed` is None for share groups; `start_offset` is theirs, and the log's for the others. `lag_entries` is the backlog of
        queues that count entries, which are batches of messages, such as Pulsar; partition -1 is a topic without partitions.
        """
        return _rows(self.groups)

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.snapshot/1`."""
        return _document(self.cluster, self.groups, self.ranked, list(self.incomplete))

    def _repr_html_(self) -> str:
        from workbench.api.html_table import table_html

        rows = self.ranked if self.ranked is not None else self.partitions
        return table_html(f"{self.cluster} at {iso_instant(self.groups.taken_at * 1000)}", rows, notes=self.incomplete)


def snapshot(
    *,
    cluster: str,
    groups: Sequence[str] = (),
    kinds: Sequence[str] = (),
    top: int | None = None,
    sort: Literal["lag", "time_lag"] | None = None,
    deadline: str | None = None,
    config: Path | None = None,
) -> SnapshotResult:
    """Read groups, members and the lag of each partition from Kafka: commits first, then log ends, so lag is never negative.

    Read-only: joins no group and writes nothing.

    Args:
        cluster: a cluster of the settings with `bootstrap`.
        groups: only these; empty: all.
        kinds: only groups of these kinds (`classic`, `consumer`, `share`, `streams`, `connect`); empty: all.
        top, sort: rank subscriptions by lag in messages or in time, and keep this many.
        deadline: total time limit, such as `15s`; None: the cluster's `timeout_seconds`.

    Raises:
        UsageError: if the cluster has no bootstrap. SourceUnreachableError: if Kafka does not answer.
        UnknownGroupError: if a group does not exist.
    """
    from workbench.queues.systems import system_of
    from workbench.settings import load_settings
    from workbench.window import parse_duration

    chosen = load_settings(config).cluster(cluster)
    seconds = parse_duration(deadline).total_seconds() if deadline else chosen.timeout_seconds
    observer = system_of(chosen).observer(chosen, seconds=seconds)
    found = observer.snapshot(groups=list(groups) or None)
    if kinds:
        found = found.of_kinds(kinds)
    incomplete = [*found.incomplete, *_above_ends(found)]
    old: Ages | None = observer.ages(found, incomplete) if sort == "time_lag" else None
    ranked = _ranked(found, old)[:top] if top is not None or sort is not None else None
    return SnapshotResult(cluster=cluster, groups=found, ranked=ranked, incomplete=tuple(incomplete))


def _above_ends(snapshot: Snapshot) -> list[str]:
    """Commits of which no lag can be told."""
    return [
        f"lag of {group!r} on {topic}-{number}: its commit {at:,} is above the log's end {snapshot.ends[topic, number]:,}"
        " (cut, or recreated?)"
        for (group, topic, number), at in sorted(snapshot.commits.items())
        if at is not None and (snapshot.behind(group, topic, number) or 0) < 0
    ]


def _ranked(snapshot: Snapshot, old: Ages | None) -> list[dict[str, Any]]:
    """One row per subscription, largest lag first; unknown lag comes last, and groups that read nothing."""
    parts: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for group, name, number in snapshot.read:
        parts[group, name].append(number)
    views = {view.group: view for view in snapshot.groups}
    reading = {group for group, _ in parts}
    parts |= {(group, None): [] for group in views if group not in reading}
    rows = []
    for (group, topic), numbers in parts.items():
        lags = [lag for number in numbers if (lag := snapshot.lag(group, topic or "", number)) is not None]
        row: dict[str, Any] = {
            "group": group,
            "topic": topic,
            "kind": views[group].protocol,
            "state": views[group].state,
            "members": views[group].member_count,
            "partitions": len(numbers),
            "partitions_known": len(lags),
            "lag_messages": sum(lags) if lags else None,
            "lag_entries": _entries(snapshot, [(group, topic or "", number) for number in numbers]),
        }
        if old is not None:
            known = [old[group, topic or "", number] for number in numbers if (group, topic or "", number) in old]
            oldest = max(known, key=lambda age: age.low) if known else None
            waits = any(snapshot.lag(group, topic or "", it) and (group, topic or "", it) not in old for it in numbers)
            if waits and oldest is not None and oldest.low == 0:
                oldest = None  # of what waits, not even one age is known
            row["time_lag_low"] = oldest.low if oldest is not None else None
            row["time_lag_high"] = oldest.high if oldest is not None else None
        rows.append(row)

    def behind(row: dict[str, Any]) -> tuple[Any, ...]:
        age = row.get("time_lag_low")
        lag = (
            row["lag_entries"] if row["lag_messages"] is None else row["lag_messages"]
        )  # an entry has one message at least
        unknown = float("inf") if lag else -1.0  # what waits for an unknown time may be the worst
        by_age = -(age if age is not None else unknown) if old is not None else 0.0
        return by_age, -(lag if lag is not None else -1), row["group"], row["topic"] or ""

    return sorted(rows, key=behind)


def _entries(snapshot: Snapshot, keys: Sequence[tuple[str, str, int]]) -> int | None:
    """Backlog in entries; None if it is not known of all, as in Kafka, which counts messages."""
    counts = [share.entries for key in keys if (share := snapshot.shares.get(key)) is not None]
    known = [it for it in counts if it is not None]
    return sum(known) if known and len(known) == len(keys) else None


def _rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    owners = {
        (view.group, *part): member for view in snapshot.groups for member in view.members for part in member.partitions
    }
    kinds = {view.group: view.protocol for view in snapshot.groups}
    rows = []
    for group, topic, partition in sorted(snapshot.read):
        share = snapshot.shares.get((group, topic, partition))
        owner = owners.get((group, topic, partition)) if share is None else None  # a share group's partition has many
        rows.append(
            {
                "group": group,
                "kind": kinds[group],
                "topic": topic,
                "partition": partition,
                "committed": snapshot.commits.get((group, topic, partition)),
                "start_offset": share.start if share is not None else snapshot.starts.get((topic, partition)),
                "log_end": snapshot.ends.get((topic, partition)),
                "lag_messages": snapshot.lag(group, topic, partition),
                "lag_entries": share.entries if share is not None else None,
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    return rows


def _document(
    cluster: str, snapshot: Snapshot, ranked: list[dict[str, Any]] | None, incomplete: list[str]
) -> dict[str, Any]:
    head = {"schema": "workbench.snapshot/1", "cluster": cluster, "taken_at": iso_instant(snapshot.taken_at * 1000)}
    if ranked is not None:
        counts = {"group_count": len(snapshot.groups), "kinds": snapshot.kinds}
        return {**head, **counts, "subscriptions": ranked, "incomplete": incomplete}
    return {
        **head,
        "groups": [_group(view) for view in snapshot.groups],
        "partitions": _rows(snapshot),
        "incomplete": incomplete,
    }


def _group(view: GroupView) -> dict[str, Any]:
    moving = view.reassigning
    return {
        "group": view.group,
        "kind": view.protocol,
        "state": view.state,
        "protocol": view.protocol,
        "judged": cannot_judge(view.protocol) is None,
        "members": view.member_count,
        "reassigning": len(moving) if moving is not None else None,
        "assignments": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [list(part) for part in member.partitions],
                "target": [list(part) for part in member.target] if member.target is not None else None,
            }
            for member in view.members
        ],
    }
