"""What to do for each verdict, most reversible first, with the real values put in and a check that shows whether it worked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workbench.triage import needs
from workbench.triage.finding import Action
from workbench.triage.verdict import Verdict
from workbench.words import duration, listed, plural, printable, shell_word

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom the commands are about."""

    cluster: str
    group: str
    topic: str
    since: datetime | None = None
    bootstrap: str | None = None

    @property
    def brokers(self) -> str:
        """The brokers as a shell word; a variable to be set where they are not known."""
        return shell_word(self.bootstrap) if self.bootstrap else '"$BOOTSTRAP"'

    @property
    def when(self) -> str:
        """The moment in words, with a blank before it."""
        return f" at {self.since:%H:%M:%S} UTC" if self.since is not None else ""

    @property
    def triage(self) -> str:
        """The command that looks again."""
        return f"workbench triage --cluster {shell_word(self.cluster)} --group {shell_word(self.group)}"

    @property
    def describe(self) -> str:
        """Kafka's own view of the group."""
        return f"kafka-consumer-groups --bootstrap-server {self.brokers} --describe --group {shell_word(self.group)}"

    @property
    def members(self) -> str:
        """Kafka's own view of the members."""
        return f"{self.describe} --members --verbose"


def actions_for(
    verdict: Verdict, row: Row, *, since: datetime | None = None, bootstrap: str | None = None
) -> tuple[Action, ...]:
    """The actions for a verdict.

    Args:
        verdict, row: the finding and its features.
        since: when it began, if that is known.
        bootstrap: host:port of the brokers, if they are known.
    """
    make = _ACTIONS.get(verdict)
    subject = Subject(row["cluster"], row["group"], row["topic"], since, bootstrap)
    return tuple(make(subject, row)) if make is not None else ()


def _no_data(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="See whether the metrics target is up, and ask Kafka itself meanwhile",
            command=f"workbench snapshot --cluster {shell_word(it.cluster)} --group {shell_word(it.group)}",
            verify="the snapshot shows commits, and question 1 says yes again",
        )
    ]


def _stopped(it: Subject, row: Row) -> list[Action]:
    gone = [m["member"] for m in row["members"] or () if not m["live"]]
    who = f" (last seen: {listed(gone)})" if gone else ""
    return [
        Action(
            title=f"See whether the consumers run, and why they ended{who}", command=it.members, verify="members > 0"
        ),
        Action(
            title="Start them again; commits are kept, so they go on where they stopped",
            command=None,
            verify="members > 0 and the committed offsets move within 1 min",
        ),
    ]


def _stuck(it: Subject, row: Row) -> list[Action]:
    stuck = set(row["stuck_partitions"])
    first = next(p for p in row["partitions"] if p["partition"] in stuck)
    read = f"kcat -b {it.brokers} -C -t {shell_word(it.topic)} -p {first['partition']} -o {int(first['committed'])} -c 1 -J"
    return [
        Action(
            title=f"Look at the record that holds up partition {first['partition']}, at offset {int(first['committed']):,}",
            command=read,
            verify="you know why its handler cannot take it",
        ),
        Action(
            title="Let the handler put it into the dead-letter topic (lower max_attempts, or return Dead for it)",
            command=None,
            verify=f"the committed offset of partition {first['partition']} passes {int(first['committed']):,}",
        ),
    ]


def _slow_processor(it: Subject, row: Row) -> list[Action]:
    names = set(row["slow_processors"])
    shown = listed(sorted(names))
    needed, have = needs.processor_threads(row, names), needs.current_threads(row, names)
    sizing = f" ({have} now, {needed} needed to keep up at this speed)" if needed and have else ""
    return [
        Action(
            title=f"See what changed{it.when} in the handler of {shown}, or in what it calls",
            command=it.triage,
            verify=f"process time of {shown} is back at {duration(row['slowest_baseline_seconds'])}",
        ),
        Action(
            title=f"Give {shown} more processor threads{sizing}",
            command=None,
            verify="the queues of these types are less than half full within 5 min",
        ),
    ]


def _hot_key(it: Subject, row: Row) -> list[Action]:
    queue = row["hot_queues"][0]
    return [
        Action(
            title=f"Find the key that fills queue {printable(queue['queue'])} of {printable(queue['processor'])}, and who sends it",
            command=it.triage,
            verify="the queue is as full as its siblings",
        )
    ]


def _slow_downstream(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title=f"Look at what all processors call, and what changed there{it.when}: database, service, lock, the machine itself",
            command=it.triage,
            verify="process times are back at their baseline",
        )
    ]


def _saturated(it: Subject, row: Row) -> list[Action]:
    names = {q["processor"] for q in row["full_queues"]}
    needed, have = needs.processor_threads(row, names), needs.current_threads(row, names)
    sizing = f" from {have} to {needed}" if needed and needed > have else ""
    return [
        Action(
            title=f"Raise the processor threads of {listed(sorted(names))}{sizing}, or add an instance",
            command=it.triage,
            verify="the queues are less than half full, and the lag shrinks",
        )
    ]


def _hot_partition(it: Subject, row: Row) -> list[Action]:
    return [
        Action(
            title=f"Find which keys go to partition {listed(row['hot_partitions'])}, and whether they can be spread",
            command=it.describe,
            verify="the lag of these partitions shrinks towards the others'",
        )
    ]


def _too_few(it: Subject, row: Row) -> list[Action]:
    members, partitions = int(row["group_members"]), int(row["partition_count"])
    needed = needs.consumers(row)
    target = min(partitions, needed) if needed is not None else partitions
    more = f"from {members} to {max(members + 1, target)}"
    return [
        Action(
            title=f"Add consumers, {more} (useful up to {plural(partitions, 'partition')})",
            command=it.members,
            verify="the new members own partitions, and the lag shrinks",
        )
    ]


def _ceiling(it: Subject, row: Row) -> list[Action]:
    needed = needs.consumers(row)
    sizing = f" to at least {needed}" if needed and needed > row["partition_count"] else ""
    return [
        Action(
            title=f"Add partitions{sizing} and consumers with them, or handle events of one partition in parallel by key",
            command=it.describe,
            verify="the lag shrinks",
        )
    ]


def _look_again(it: Subject, _row: Row) -> list[Action]:
    return [Action(title="Look again in some minutes", command=it.triage, verify="the time lag shrinks")]


def _rebalance(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="See which members come and go",
            command=it.members,
            verify="no rebalance for 5 min",
        )
    ]


def _throttled(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="See which quota applies to these clients",
            command=f"kafka-configs --bootstrap-server {it.brokers} --describe --entity-type clients",
            verify="the throttle time is 0",
        )
    ]


def _network(_it: Subject, row: Row) -> list[Action]:
    slow = sorted({f"{m['member']} → broker {m['rtt_broker']}" for m in row["members"] or () if m["rtt_seconds"]})
    return [
        Action(
            title=f"Look at the way between {listed(slow, most=3)}",
            command=None,
            verify=f"round trips are back at {duration(row['rtt_baseline_seconds'])}",
        )
    ]


def _delay(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="Raise delay_capacity, or delay fewer events",
            command=it.triage,
            verify="the delay queue is less than 90 % full",
        )
    ]


_ACTIONS: dict[Verdict, Callable[[Subject, Row], list[Action]]] = {
    Verdict.NO_DATA: _no_data,
    Verdict.UNUSABLE_DATA: _no_data,
    Verdict.PRODUCER_BURST: _look_again,
    Verdict.CONSUMER_STOPPED: _stopped,
    Verdict.REBALANCE_STORM: _rebalance,
    Verdict.STUCK_PARTITION: _stuck,
    Verdict.DELAY_BACKLOG: _delay,
    Verdict.SLOW_PROCESSOR: _slow_processor,
    Verdict.HOT_KEY: _hot_key,
    Verdict.SLOW_DOWNSTREAM: _slow_downstream,
    Verdict.SATURATED_PROCESSORS: _saturated,
    Verdict.THROTTLED: _throttled,
    Verdict.SLOW_NETWORK: _network,
    Verdict.HOT_PARTITION: _hot_partition,
    Verdict.TOO_FEW_CONSUMERS: _too_few,
    Verdict.PARTITION_CEILING: _ceiling,
}
