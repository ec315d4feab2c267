"""Actions and checks that several verdicts share; those of a single verdict are in `triage/causes` or `triage/status`.

An action that a program can carry out (the lab does) has a `kind` and parameters. An action that only looks at something has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from workbench.humanize import duration, listed, percent, shell_word
from workbench.triage import capacity
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.outcome_checks import Check
from workbench.triage.subscription import SubscriptionFeatures

# Where a number is known, and none to compare it with.
LOAD_MORE = "load more (--baseline 6h), so that the data show a good time"
# What a process does at this moment, in each language.
DUMPS = "py-spy dump, jstack, Go: /debug/pprof/goroutine?debug=2, Node: node inspect -p"
WEEK_MS = 604_800_000

# The lag shrinks. (When it is gone depends on the backlog; `--watch` reports it.)
SHRINKS = Check("lag_slope", "<", 0.0)


def see_the_source(it: Subject) -> Action:
    """Check the metrics target and ask Kafka directly; for verdicts about missing or unusable data."""
    if it.recording is not None:
        return Action(
            title="See which signals the recording has: what was not measured then cannot be judged now",
            command=f"workbench profiles check --capture {shell_word(str(it.recording.folder))}",
            verify="you know which signal is missing, and can record it the next time",
        )
    ask, shows = "the queue with its own tool", "it shows how far the group is"
    command = it.describe
    if it.system == "kafka":
        ask, shows = "Kafka itself", "the snapshot shows commits"
        command = f"workbench snapshot --cluster {shell_word(it.cluster)} --group {shell_word(it.group)}"
    return Action(
        title=f"Check whether the metrics target is up; meanwhile ask {ask}",
        command=command,
        verify=f"{shows}, and question 1 is answered with yes again",
        checks=(Check("lag_known_partitions", ">", 0),),
    )


def offered(it: Subject, actions: Iterable[Action]) -> Iterator[Action]:
    """Actions with the commands that can be run here.

    A recording does not go on, so nothing waits for its next sample; and what asks Kafka does not work elsewhere.
    """
    for action in actions:
        command = action.command or ""
        waits = it.recording is not None and command.endswith(" --watch")
        asks = it.system != "kafka" and command.startswith("workbench replay ")
        yield replace(action, command=None) if waits or asks else action


def keep_longer(it: Subject, title: str, verify: str, *checks: Check) -> Action:
    """Raise the topic's retention to a week."""
    return Action(
        title=title,
        command=it.tools.set_retention(it.topic, WEEK_MS),
        verify=verify,
        kind="raise_retention",
        parameters={"retention_ms": WEEK_MS},
        checks=checks,
    )


def hung_or_gone(row: SubscriptionFeatures) -> tuple[str, ...]:
    """Members that do not poll, or else those that no longer report."""
    return row.hung_members or tuple(m.member for m in row.members if not m.live)


def consume_again(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    """Restart what hangs, or start what has stopped."""
    hung, who = row.hung_members, hung_or_gone(row)
    names = f" ({listed(who)})" if who else ""
    if hung:
        held, polls = row.held_members, {m.member for m in row.members if m.poll_age_seconds is not None}
        told = tuple(member for member in hung if member in polls and member not in held)
        untold = tuple(member for member in hung if member not in (*told, *held))
        limit, checks, again = row.limits.poll_age_seconds, list[Check](), list[str]()
        if held:
            again.append("their handlers finish records again")
            checks.append(Check("members", "<", limit, field="worked_ago_seconds", items=held))
        if told:
            again.append(f"each of them has polled in the last {duration(limit)}")
            checks.append(Check("members", "<", limit, field="poll_age_seconds", items=told))
        if untold:  # its statistics stand still: they come with a poll
            again.append("their statistics change again")
            checks.append(Check("members", "=", 0, field="stats_stand", items=untold))
        return [
            Action(
                title=f"Take a thread dump of the hanging members{names} ({DUMPS})",
                command=it.members,
                verify="you know what they wait for",
            ),
            _restart(f"Restart the hanging members{names}", " and ".join(again), who, *checks),
        ]
    # Whom the coordinator never counted may be a job, which begins where its own state says.
    where = "resume at their committed offsets"
    if row.count_disproved is not None:
        where += "; a job (Flink) from its last checkpoint or savepoint, as it may begin elsewhere without one"
    return [
        Action(
            title=f"Check whether the consumers run, and why they stopped{names}",
            command=it.members,
            verify="members > 0",
        ),
        _restart(
            f"Start them again; they {where}",
            "members > 0, and the committed offsets advance; where one does not, the record there may end each of its readers",
            who,
            Check("group_members", ">", 0),
            Check("committed_recent_per_second", ">", 0.0),
        ),
    ]


def _restart(title: str, verify: str, who: tuple[str, ...], *checks: Check) -> Action:
    return Action(
        title=title, verify=verify, kind="restart_consumers", parameters={"members": list(who)}, checks=checks
    )


def more_threads(row: SubscriptionFeatures, names: set[str], title: str) -> Action:
    """Add processor threads for some event types; `title` says how."""
    sizing = capacity.processor_threads(row, names)
    have = capacity.current_threads(row, names)
    threads = max(sizing.drain, have + 1) if sizing is not None else 2 * max(1, have)
    words = f" ({have} now; {sizing.words})" if sizing is not None and have else ""
    threads, in_each = capacity.threads_in_members(row, names, threads)
    shared = ". Let all threads of a consumer take from one queue: with one queue per thread, one with many keys holds up the others"
    return Action(
        title=f"{title}{words}{in_each}{shared}",
        verify=f"the queues of these types are less than {percent(row.limits.queue_fill_ratio)} full",
        kind="scale_processors",
        parameters={"processors": sorted(names), "threads": threads},
        checks=(Check("queues", "<", row.limits.queue_fill_ratio, field="fill", items=tuple(sorted(names))),),
    )
