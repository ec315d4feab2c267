"""What to do for each verdict, most reversible first, with the real values put in and the checks that show whether it worked.

An action has a `kind` and parameters when a program could carry it out (the lab does); looking at something has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from workbench.humanize import count, duration, listed, plural, printable, shell_word
from workbench.settings import Thresholds
from workbench.triage import capacity
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.subject import Subject
from workbench.triage.verdict import Verdict

Row = Mapping[str, Any]

# The lag does not grow any more. (That it is gone takes as long as it takes; `--watch` says when.)
_SHRINKS = Check(feature="lag_slope", relation="<", value=0.0)


def actions_for(
    verdict: Verdict,
    row: Row,
    *,
    thresholds: Thresholds,
    since: datetime | None = None,
    bootstrap: str | None = None,
) -> tuple[Action, ...]:
    """The actions for a verdict.

    Args:
        verdict, row: the finding and its features.
        thresholds: those that it was found with.
        since: when it began, if that is known.
        bootstrap: host:port of the brokers, if they are known.
    """
    make = _ACTIONS.get(verdict)
    subject = Subject(row["cluster"], row["group"], row["topic"], since, bootstrap, thresholds)
    return tuple(make(subject, row)) if make is not None else ()


def _no_data(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="See whether the metrics target is up, and ask Kafka itself meanwhile",
            command=f"workbench snapshot --cluster {shell_word(it.cluster)} --group {shell_word(it.group)}",
            verify="the snapshot shows commits, and question 1 says yes again",
            checks=(Check(feature="lag_known_partitions", relation=">", value=0),),
        )
    ]


def _cannot_tell(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="Look at the group itself while the missing signals are added",
            command=it.members,
            verify="the open question has an answer",
        )
    ]


def _stopped(it: Subject, row: Row) -> list[Action]:
    hung = tuple(row["hung_members"] or ())
    gone = hung or tuple(m["member"] for m in row["members"] or () if not m["live"])
    who = f" ({listed(gone)})" if gone else ""
    moves = (
        Check(feature="group_members", relation=">", value=0),
        Check(feature="committed_moved", relation=">", value=0),
    )
    polls = (
        Check(
            feature="members", field="poll_age_seconds", items=hung, relation="<", value=it.thresholds.poll_age_seconds
        ),
    )
    return [
        Action(
            title=f"See where the hanging consumers hang{who}: a thread dump (py-spy dump, jstack)"
            if hung
            else f"See whether the consumers run, and why they ended{who}",
            command=it.members,
            verify="you know what it waits for" if hung else "members > 0",
        ),
        Action(
            title=f"Restart what hangs{who}"
            if hung
            else "Start them again; commits are kept, so they go on where they stopped",
            command=None,
            verify="every member polls again" if hung else "members > 0 and the committed offsets move within 1 min",
            kind="restart_consumers",
            parameters={"members": list(gone)},
            checks=polls if hung else moves,
        ),
    ]


def _stuck(it: Subject, row: Row) -> list[Action]:
    stuck = set(row["stuck_partitions"])
    first = next(p for p in row["partitions"] if p["partition"] in stuck)
    number, offset = first["partition"], int(first["committed"])
    read = f"kcat -b {it.brokers} -C -t {shell_word(it.topic)} -p {number} -o {offset} -c 1 -J"
    return [
        Action(
            title=f"Look at the record that holds up partition {number}, at offset {offset:,}",
            command=read,
            verify="you know why its handler cannot take it",
        ),
        Action(
            title="Let the handler put it into the dead-letter topic (lower max_attempts, or return Dead for it)",
            command=None,
            verify=f"the committed offset of partition {number} passes {offset:,}",
            kind="dead_letter",
            parameters={"partition": number, "offset": offset, "max_attempts": 3},
            checks=(Check(feature="partitions", field="committed", items=(str(number),), relation=">", value=offset),),
        ),
    ]


def _pool(it: Subject, row: Row, names: set[str], title: str) -> Action:
    """More threads for some event types."""
    sizing = capacity.processor_threads(row, names, objective_seconds=it.thresholds.time_lag_objective_seconds)
    have = capacity.current_threads(row, names)
    threads = max(sizing.drain, have + 1) if sizing is not None else 2 * max(1, have)
    words = f" ({have} now; {sizing.words})" if sizing is not None and have else ""
    threads, in_each = capacity.threads_in_members(row, names, threads, fill_ratio=it.thresholds.queue_fill_ratio)
    words += in_each
    shared = ". Let the threads of a member share one queue: of several, the one with the most keys becomes the limit"
    return Action(
        title=f"{title}{words}{shared}",
        command=None,
        verify="the queues of these types are less than half full within 5 min, and the lag shrinks",
        kind="scale_processors",
        parameters={"processors": sorted(names), "threads": threads},
        checks=(
            Check(
                feature="queues",
                field="fill",
                items=tuple(sorted(names)),
                relation="<",
                value=it.thresholds.queue_fill_ratio,
            ),
        ),
    )


def _slow_processor(it: Subject, row: Row) -> list[Action]:
    names = set(row["slow_processors"])
    shown = listed(sorted(names))
    usual = row["slowest_baseline_seconds"]
    return [
        Action(
            title=f"See what changed{it.when} in the handler of {shown}, or in what it calls",
            command=it.triage,
            verify=f"process time of {shown} is back at {duration(usual)}",
            checks=(
                Check(
                    feature="processors", field="process_seconds", items=tuple(sorted(names)),
                    relation="<", value=usual * it.thresholds.slow_ratio,
                ),
            ),
        ),
        _pool(it, row, names, f"Give {shown} a larger pool of its own"),
    ]  # fmt: skip


def _hot_key(it: Subject, row: Row) -> list[Action]:
    queue = row["hot_queues"][0]
    name = queue["processor"]
    worst = max(row["partitions"], key=lambda p: p["lag_messages"] or 0)
    keys = (
        f"kcat -b {it.brokers} -C -q -t {shell_word(it.topic)} -p {worst['partition']} -o -1000 -e -f '%k\\n'"
        " | sort | uniq -c | sort -rn | head -5"
    )
    even = Check(feature="queues", field="fill", items=(name,), relation="<", value=it.thresholds.queue_fill_ratio)
    return [
        Action(
            title=f"Find the key that fills queue {printable(queue['queue'])} of {printable(name)}, and who sends it",
            command=keys,
            verify="you know the key, and whether its events must stay in order",
        ),
        Action(
            title="Spread its events (a salt behind the key), if their order does not matter; or have its sender slow down",
            command=None,
            verify="the queue is as full as its siblings",
            kind="spread_keys",
            parameters={"processor": name, "partition": worst["partition"]},
            checks=(even,),
        ),
    ]


def _slow_downstream(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title=f"Look at what all processors call, and what changed there{it.when}: database, service, lock, the machine itself",
            command=it.triage,
            verify="process times are back at their baseline",
            checks=(Check(feature="median_slow_down", relation="<", value=it.thresholds.all_slow_ratio),),
        )
    ]


def _saturated(it: Subject, row: Row) -> list[Action]:
    names = {q["processor"] for q in row["full_queues"]}
    return [_pool(it, row, names, f"Raise the processor threads of {listed(sorted(names))}, or add an instance")]


def _hot_partition(it: Subject, row: Row) -> list[Action]:
    hot = row["hot_partitions"]
    return [
        Action(
            title=f"Find which keys go to partition {listed(hot)}, and whether they can be spread",
            command=f"kcat -b {it.brokers} -C -q -t {shell_word(it.topic)} -p {hot[0]} -o -1000 -e -f '%k\\n'"
            " | sort | uniq -c | sort -rn | head -5",
            verify="you know the keys",
        ),
        Action(
            title="Spread them (a salt behind the key, or another partitioner), if their order allows it",
            command=None,
            verify="the lag of these partitions shrinks towards the others'",
            kind="spread_keys",
            parameters={"partitions": list(hot)},
            checks=(
                Check(
                    feature="partitions", field="lag_slope", items=tuple(str(p) for p in hot), relation="<", value=0.0
                ),
            ),
        ),
    ]


def _too_few(it: Subject, row: Row) -> list[Action]:
    members, partitions = int(row["group_members"]), int(row["partition_count"])
    sizing = capacity.consumers(row, objective_seconds=it.thresholds.time_lag_objective_seconds)
    target = max(members + 1, min(partitions, sizing.drain if sizing is not None else partitions))
    words = f": {sizing.words}" if sizing is not None else ""
    return [
        Action(
            title=f"Add consumers, from {members} to {target} (useful up to {plural(partitions, 'partition')}){words}",
            command=it.members,
            verify="the new members own partitions, and the lag shrinks",
            kind="add_consumers",
            parameters={"members": target},
            checks=(Check(feature="group_members", relation=">=", value=target), _SHRINKS),
        )
    ]


def _ceiling(it: Subject, row: Row) -> list[Action]:
    sizing = capacity.consumers(row, objective_seconds=it.thresholds.time_lag_objective_seconds)
    partitions = int(row["partition_count"])
    total = max(partitions + 1, sizing.drain if sizing is not None else 2 * partitions)
    words = f": {sizing.words}" if sizing is not None else ""
    return [
        Action(
            title=f"Add partitions, from {partitions} to {total}, and consumers with them, or handle events of one partition in "
            f"parallel by key{words}. Keys change their partition then: order across the change is lost",
            command=f"kafka-topics --bootstrap-server {it.brokers} --alter --topic {shell_word(it.topic)} --partitions {total}",
            verify="the new partitions are owned, and the lag shrinks",
            kind="add_partitions",
            parameters={"partitions": total, "members": total},
            checks=(Check(feature="partition_count", relation=">=", value=total), _SHRINKS),
        )
    ]


def _look_again(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(title="Look again in some minutes", command=it.triage, verify="the time lag shrinks", checks=(_SHRINKS,))
    ]


_STORMS: dict[str | None, tuple[str, str]] = {
    "poll_stall": (
        "{who} polls too rarely: replace it, and find what blocks its thread; until then fewer records for each poll "
        "(max.poll.records) or more time (max.poll.interval.ms)",
        "replace_members",
    ),
    "member_crash": ("{who} dies and comes back: read its log, and put another one in its place", "replace_members"),
    "deploy": (
        "A rollout goes through the group ({who}): let it end, or stop it; later use static membership",
        "stop_deploy",
    ),
    "metadata_change": ("Partitions are being added one by one: add them in one go", "stop_changes"),
}


def _rebalance(it: Subject, row: Row) -> list[Action]:
    calm = (Check(feature="rebalances", relation="<", value=it.thresholds.rebalances),)
    who = row["paused_members"] if row["storm_cause"] == "poll_stall" else row["changed_members"]
    see = Action(title="See which members come and go", command=it.members, verify="you know who, and why")
    if row["storm_cause"] not in _STORMS:
        return [see]
    title, kind = _STORMS[row["storm_cause"]]
    act = Action(
        title=title.format(who=listed(sorted(who)) or "one member"),
        command=None,
        verify="no rebalance for 5 min",
        kind=kind,
        parameters={"members": sorted(who)},
        checks=calm,
    )
    return [see, act]


def _throttled(it: Subject, row: Row) -> list[Action]:
    held = sorted(
        {m["member"] for m in row["members"] or () if (m["throttle_seconds"] or 0) > it.thresholds.throttle_seconds}
    )
    name = shell_word(held[0]) if held else '"$CLIENT_ID"'
    change = f"kafka-configs --bootstrap-server {it.brokers} --entity-type clients --entity-name {name}"
    return [
        Action(
            title=f"See which quota applies to these clients ({listed(held)})",
            command=f"{change} --describe",
            verify="you know the quota, and who set it",
        ),
        Action(
            title=f"Raise it above what arrives ({count(row['arrival_per_second'])} messages/s), or lift it",
            command=f"{change} --alter --delete-config consumer_byte_rate",
            verify="the throttle time is 0",
            kind="raise_quota",
            parameters={"members": held},
            checks=(Check(feature="throttle_seconds", relation="<=", value=it.thresholds.throttle_seconds),),
        ),
    ]


def _network(it: Subject, row: Row) -> list[Action]:
    limit = max(it.thresholds.rtt_seconds, (row["rtt_baseline_seconds"] or 0) * it.thresholds.rtt_ratio)
    slow = [m for m in row["members"] or () if (m["rtt_seconds"] or 0) >= limit]
    ways = sorted({f"{m['member']} → broker {m['rtt_broker']}" for m in slow})
    fast = (Check(feature="rtt_seconds", relation="<", value=limit),)
    return [
        Action(
            title=f"Look at the way between {listed(ways, most=3)}",
            command=None,
            verify=f"round trips are back at {duration(row['rtt_baseline_seconds'])}",
            checks=fast,
        ),
        Action(
            title="Restart these members on another machine or zone, with a better way",
            command=None,
            verify=f"round trips are below {duration(limit)}",
            kind="move_members",
            parameters={"members": sorted(m["member"] for m in slow)},
            checks=fast,
        ),
    ]


def _delay(it: Subject, row: Row) -> list[Action]:
    capacity = max((m["delayed_capacity"] or 0 for m in row["members"] or ()), default=0)
    wanted = round(capacity * 10) or None
    more = f", from {count(capacity)} to {count(wanted)}" if wanted else ""
    return [
        Action(
            title=f"Raise delay_capacity{more}, or delay fewer events",
            command=it.triage,
            verify="the delay queue is less than half full",
            kind="raise_delay_capacity",
            parameters={"capacity": wanted},
            checks=(Check(feature="delay_high", relation="<", value=it.thresholds.delay_high_ratio),),
        )
    ]


_ACTIONS: dict[Verdict, Callable[[Subject, Row], list[Action]]] = {
    Verdict.CANNOT_TELL: _cannot_tell,
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
