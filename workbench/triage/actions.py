"""Actions and checks that several verdicts share; those of a single verdict are in its module in `triage/verdicts`.

An action that a program can carry out (the lab does) has a `kind` and parameters. An action that only looks at something has none.
"""

from __future__ import annotations

from workbench.humanize import shell_word
from workbench.triage import capacity
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures

# The lag shrinks. (When it is gone depends on the backlog; `--watch` reports it.)
SHRINKS = Check(feature="lag_slope", relation="<", value=0.0)


def see_the_source(it: Subject) -> Action:
    """Check the metrics target and ask Kafka directly; for verdicts about missing or unusable data."""
    return Action(
        title="Check whether the metrics target is up; meanwhile ask Kafka itself",
        command=f"workbench snapshot --cluster {shell_word(it.cluster)} --group {shell_word(it.group)}",
        verify="the snapshot shows commits, and question 1 is answered with yes again",
        checks=(Check(feature="lag_known_partitions", relation=">", value=0),),
    )


def keep_longer(it: Subject) -> str:
    """Command that raises the topic's retention to a week."""
    return (
        f"kafka-configs --bootstrap-server {it.brokers} --alter --entity-type topics"
        f" --entity-name {shell_word(it.topic)} --add-config retention.ms=604800000"
    )


def more_threads(it: Subject, row: SubscriptionFeatures, names: set[str], title: str) -> Action:
    """Add processor threads for some event types; `title` says how."""
    sizing = capacity.processor_threads(row, names, objective_seconds=it.thresholds.time_lag_objective_seconds)
    have = capacity.current_threads(row, names)
    threads = max(sizing.drain, have + 1) if sizing is not None else 2 * max(1, have)
    words = f" ({have} now; {sizing.words})" if sizing is not None and have else ""
    threads, in_each = capacity.threads_in_members(row, names, threads, fill_ratio=it.thresholds.queue_fill_ratio)
    words += in_each
    shared = ". Let the threads of a member share one queue; with several queues, the one with the most keys becomes the limit"
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


def commonest_keys(it: Subject, partition: int) -> str:
    """Shell command that counts the keys of a partition's last 1,000 records."""
    return (
        f"kcat -b {it.brokers} -C -q -t {shell_word(it.topic)} -p {partition} -o -1000 -e -f '%k\\n'"
        " | sort | uniq -c | sort -rn | head -5"
    )
