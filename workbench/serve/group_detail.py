"""What the page of a group shows beside its verdict: partitions and who has them, consumers, last changes, addresses."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from workbench.humanize import one_line
from workbench.limited_reads import is_web_address
from workbench.report.partition_holders import consumers as consumers_of
from workbench.report.partition_holders import worst_first

if TYPE_CHECKING:
    from workbench.collect.capture import Capture
    from workbench.triage.finding import Finding

_PARTITIONS, _CONSUMERS, _CHANGES, _LINKS = (
    50,
    30,
    8,
    8,
)  # the worst or latest of each; a fleet of thousands stays small


def packed(finding: Finding, capture: Capture) -> bytes:
    """The details of a finding, as the database keeps them."""
    rows = [
        row for row in capture.groups.filter(_of(capture, finding.group)).to_pylist() if row["member_id"] is not None
    ]
    owners, worst = consumers_of(finding, capture), worst_first(finding)
    consumers: dict[tuple[str, str], int] = {}
    for row in rows:
        who = row["client_id"] or "", row["host"] or ""
        consumers[who] = consumers.get(who, 0) + (row["topic"] == finding.topic)
    addresses = {**({"Runbook of the team": finding.own_runbook} if finding.own_runbook else {}), **finding.links}
    found = {
        "objective": capture.info.limits(finding.group).time_lag_objective_seconds,
        "partitions": [
            [it.partition, it.lag_messages, it.time_lag_seconds, owners.get(it.partition)] for it in worst[:_PARTITIONS]
        ],
        "partition_count": len(finding.partitions),
        "consumers": [[*it, number] for it, number in sorted(consumers.items())[:_CONSUMERS]],
        "consumer_count": len(consumers),
        "asked": bool(capture.groups.num_rows),
        "changes": _changes(capture, finding),
        "owner": finding.owner,
        "runbook": finding.runbook,
        "links": dict(list(addresses.items())[:_LINKS]),
    }
    return zlib.compress(json.dumps(found).encode())


def unpacked(kept: bytes | None) -> dict[str, Any]:
    """The details that were kept; empty if none were."""
    if kept is None:
        return {}
    found: dict[str, Any] = json.loads(zlib.decompress(kept))
    found["links"] = {name: it for name, it in found["links"].items() if is_web_address(it)}
    return found


def _of(capture: Capture, group: str) -> Any:
    import pyarrow.compute as pc

    return pc.equal(capture.groups["group"], group)


def _changes(capture: Capture, finding: Finding) -> Sequence[tuple[float, str, str]]:
    from workbench.settings_of_groups import matches
    from workbench.triage.changes import dated

    found = [
        (at.timestamp(), one_line(str(it.get("kind", "event"))), one_line(str(it.get("text", ""))))
        for at, it in dated(capture.events)
        if it.get("group") is None or matches(str(it["group"]), finding.group)
    ]
    return sorted(found, key=itemgetter(0))[::-1][:_CHANGES]
