"""Actions and checks that several verdicts share; those of one verdict stand in its module in `triage/verdicts`.

An action has a `kind` and parameters when a program could carry it out (the lab does); looking at something has none.
"""

from __future__ import annotations

from workbench.humanize import shell_word
from workbench.triage import capacity
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures

# The lag does not grow any more. (That it is gone takes as long as it takes; `--watch` says when.)
SHRINKS = Check(feature="lag_slope", relation="<", value=0.0)


def see_the_source(it: Subject) -> Action:
    """For verdicts about the data themselves."""
    return Action(
        title="See whether the metrics target is up, and ask Kafka itself meanwhile",
        command=f"workbench snapshot --cluster {shell_word(it.cluster)} --group {shell_word(it.group)}",
        verify="the snapshot shows commits, and question 1 says yes again",
        checks=(Check(feature="lag_known_partitions", relation=">", value=0),),
    )


def more_threads(it: Subject, row: SubscriptionFeatures, names: set[str], title: str) -> Action:
    """More processor threads for some event types; `title` says how."""
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


def commonest_keys(it: Subject, partition: int) -> str:
    """The command that counts the keys of a partition's last thousand records."""
    return (
        f"kcat -b {it.brokers} -C -q -t {shell_word(it.topic)} -p {partition} -o -1000 -e -f '%k\\n'"
        " | sort | uniq -c | sort -rn | head -5"
    )
