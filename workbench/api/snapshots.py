"""Current groups, members and lag, from Kafka itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from workbench.collect.kafka_ages import Age
    from workbench.collect.kafka_views import Snapshot

    Ages = Mapping[tuple[str, str, int], Age]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    """Snapshot of a cluster.

    Attributes:
        cluster: its name in the settings.
        groups: groups, members, commits and log end offsets.
        ranked: a row for each subscription, largest lag first, if requested.
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
        """One row per partition with a commit: offsets, lag in messages (None: not known) and its owner."""
        return _rows(self.groups)

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.snapshot/1`."""
        return _document(self.cluster, self.groups, self.ranked, list(self.incomplete))

    def _repr_html_(self) -> str:
        from workbench.api.table import table_html

        rows = self.ranked if self.ranked is not None else self.partitions
        return table_html(f"{self.cluster} at {self.groups.taken_at}", rows, notes=self.incomplete)


def snapshot(
    *,
    cluster: str,
    groups: Sequence[str] = (),
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
        top, sort: rank subscriptions by lag in messages or in time, and keep this many.
        deadline: total time limit, such as `15s`; None: the cluster's `timeout_seconds`.

    Raises:
        UsageError: if the cluster has no bootstrap. SourceUnreachableError: if Kafka does not answer.
        UnknownGroupError: if a group does not exist.
    """
    from workbench.collect.kafka import KafkaCluster
    from workbench.collect.kafka_ages import ages
    from workbench.settings import load_settings
    from workbench.window import parse_duration

    chosen = load_settings(config).cluster(cluster)
    if chosen.bootstrap is None:
        raise UsageError(f"The cluster {cluster!r} has no bootstrap in the settings.", hint="Add it to workbench.toml.")
    seconds = parse_duration(deadline).total_seconds() if deadline else chosen.timeout_seconds
    kafka = KafkaCluster(chosen.bootstrap, chosen.kafka, deadline_seconds=seconds)
    found = kafka.snapshot(groups=list(groups) or None)
    incomplete = list(found.incomplete)
    old: Ages | None = ages(kafka, found, incomplete) if sort == "time_lag" else None
    ranked = _ranked(found, old)[:top] if top is not None or sort is not None else None
    return SnapshotResult(cluster=cluster, groups=found, ranked=ranked, incomplete=tuple(incomplete))


def _ranked(snapshot: Snapshot, old: Ages | None) -> list[dict[str, Any]]:
    """One row per subscription, largest lag first; unknown lag comes last."""
    parts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for group, topic, number in snapshot.commits:
        parts[group, topic].append(number)
    views = {view.group: view for view in snapshot.groups}
    rows = []
    for (group, topic), numbers in parts.items():
        lags = [lag for number in numbers if (lag := snapshot.lag(group, topic, number)) is not None]
        row: dict[str, Any] = {
            "group": group,
            "topic": topic,
            "state": views[group].state,
            "members": views[group].member_count,
            "partitions": len(numbers),
            "partitions_known": len(lags),
            "lag_messages": sum(lags) if lags else None,
        }
        if old is not None:
            known = [old[group, topic, number] for number in numbers if (group, topic, number) in old]
            oldest = max(known, key=lambda age: age.low) if known else None
            row["time_lag_low"] = oldest.low if oldest is not None else None
            row["time_lag_high"] = oldest.high if oldest is not None else None
        rows.append(row)

    def behind(row: dict[str, Any]) -> tuple[Any, ...]:
        age = row.get("time_lag_low")
        lag = row["lag_messages"]
        by_age = -(age if age is not None else -1.0) if old is not None else 0.0
        return by_age, -(lag if lag is not None else -1), row["group"], row["topic"]

    return sorted(rows, key=behind)


def _rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    owners = {
        (view.group, *part): member for view in snapshot.groups for member in view.members for part in member.partitions
    }
    rows = []
    for (group, topic, partition), committed in sorted(snapshot.commits.items()):
        owner = owners.get((group, topic, partition))
        rows.append(
            {
                "group": group,
                "topic": topic,
                "partition": partition,
                "committed": committed,
                "log_end": snapshot.ends.get((topic, partition)),
                "lag_messages": snapshot.lag(group, topic, partition),
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    return rows


def _document(
    cluster: str, snapshot: Snapshot, ranked: list[dict[str, Any]] | None, incomplete: list[str]
) -> dict[str, Any]:
    head = {"schema": "workbench.snapshot/1", "cluster": cluster, "taken_at": snapshot.taken_at}
    if ranked is not None:
        return {**head, "group_count": len(snapshot.groups), "subscriptions": ranked, "incomplete": incomplete}
    return {
        **head,
        "groups": [
            {"group": view.group, "state": view.state, "protocol": view.protocol, "members": view.member_count}
            for view in snapshot.groups
        ],
        "partitions": _rows(snapshot),
        "incomplete": incomplete,
    }
