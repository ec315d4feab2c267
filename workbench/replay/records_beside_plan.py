"""Partitions without an offset of the plan that may have records of its window by now: empty ones, and those that were added since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.humanize import plural
from workbench.logs.late_records import Late, find_late
from workbench.queues.replay_port import ClusterView, Gateway, LogView, names_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import Plan
from workbench.replay.verify import VerifyVerdict


def added_since(plan: Plan, view: ClusterView) -> list[Partition]:
    """Partitions that topics have gained, of which the plan has all others; none if it has no window that records may be of."""
    if not plan.windows_ms:
        return []
    there = {
        (name, number) for name in plan.whole_topics if name in view.topics for number in view.topics[name].leaders
    }
    return sorted(there - plan.known)


def records_beside(
    plan: Plan, gateway: Gateway, logs: LogView, added: Sequence[Partition], commits: Mapping[Partition, int]
) -> list[tuple[str, VerifyVerdict]]:
    """Of partitions without an offset of the plan, those that may have records of the window by now, and what that means.

    The plan commits nothing there, so a commit of the group proves nothing.
    """
    begins = {(topic, number): end for topic, number, end in plan.beside or ()}
    starts = {key: max(begins.get(key, 0), logs.starts[key]) for key in (*begins, *added) if key in logs.starts}
    spans = {key: [(start, max(start, logs.ends[key]))] for key, start in starts.items() if key in logs.ends}
    late = find_late(plan, gateway, spans)
    found = []
    for key in sorted((*begins, *added)):
        it, verdict = late.get(key, Late()), VerifyVerdict.CANNOT_TELL
        if key not in spans:
            words = f"does not answer: {logs.errors.get(key, 'no reason given')}"
        elif it.records and key in begins and key not in commits:
            words, verdict = (
                f"has {plural(it.records, 'record')} of it, which nobody has read",
                VerifyVerdict.INCOMPLETE,
            )
        elif it.records:
            words = f"has {plural(it.records, 'record')} of the window. Where the group began there is not known"
        elif it.unread:
            words = f"may have records of the window: {plural(it.unread, 'offset was', 'offsets were')} not read"
        else:
            continue
        since = "had no record of the window when" if key in begins else "was added since"
        found.append((f"{names_of([key])} {since} the plan was made, and {words}.", verdict))
    return found
