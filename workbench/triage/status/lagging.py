"""Does it lag: is it late, does the lag grow, or does anything stand still?"""

from __future__ import annotations

from datetime import timedelta

from workbench.humanize import counted, duration, numbered, plural, rate
from workbench.judgement_numbers import APART, SEVERAL
from workbench.triage.facts.lag_facts import course
from workbench.triage.facts.unknown_numbers import above, any_of, most, times
from workbench.triage.finding import TimeLag
from workbench.triage.question_types import Ask, Measure, Node, always, leaves_open, no, yes
from workbench.triage.subscription import SubscriptionFeatures as Row


def _is_batch(row: Row) -> bool:
    return row.batch_due_seconds is not None


def trend(row: Row) -> float | None:
    """Messages/s by which the lag changes, for every line that says it: of what is behind, in the last few samples.

    None where it would grow faster than messages arrive: a sample was misread, or commits were set back. (A line through a lag that
    grew in one step is half as steep again as the mean.)
    """
    courses = row.told("lag_course")
    slope = row.lag_recent_slope if row.draining and row.lag_recent_slope is not None else row.lag_slope
    if courses:
        slope = sum(course(it) or 0.0 for it in row.partitions)
    if row.arrival_per_second is None:
        return slope
    arriving = most(row.arrival_per_second, row.arrival_recent_per_second if courses else None, 1.0)
    return None if above(slope, times(APART, arriving)) else slope


def words(row: Row) -> str:
    """How far behind, in time and messages, and the trend."""
    if row.reasons.get("data_usable") == "empty":
        return "the topic has no record"
    behind = row.time_lag_seconds
    slope = trend(row)
    if slope is None:
        moves = "trend unknown"
    elif abs(slope) < 0.5:
        moves = "steady"
    else:
        joined = " of" if slope > 0 else ","  # what is caught up with may be more than what arrives
        told = row.arrival_per_second is not None and slope <= row.arrival_per_second  # else it has arrived lately
        arriving = f"{joined} {rate(row.arrival_per_second)} arriving" if told else ""
        moves = f"{'growing' if slope > 0 else 'shrinking'} {rate(abs(slope))}{arriving}"
    if behind is None:
        known = row.told("age_at_most").values()
        lately = (
            f" (lately at times {duration(max(known))} or less)" if known and len(known) == row.partition_count else ""
        )
        return f"{counted(row.lag_messages, 'message')} behind, {moves}; how long they wait is not measured{lately}"
    return f"{age(row)} behind ({counted(row.lag_messages, 'message')}), {moves}{_besides(row)}"


def age(row: Row) -> str:
    """The time lag, as a finding says it."""
    return TimeLag.of(row.oldest).words


def back_on_disks(row: Row) -> str:
    """When what it reads is no longer in remote storage alone."""
    if row.tail_seconds is None:
        return "at this pace it does not get back to them"
    return f"at this pace it is back on them in {duration(row.tail_seconds)}"


def batch_due(row: Row) -> str:
    """The last run of a batch that must be over by now, and when it was due."""
    ago = row.batch_due_ago_seconds
    if ago is None or row.at is None:
        return "the run"
    at = row.at - timedelta(seconds=ago)
    return f"the run due at {at:%Y-%m-%d %H:%MZ} ({duration(max(0.0, ago))} ago)"


def without_commit(row: Row) -> list[int]:
    """Partitions that hold records, and of which no commit is known."""
    return [it.partition for it in row.partitions if it.lag_messages is None and above(it.log_end, it.log_start)]


def _besides(row: Row) -> str:
    if marked := sum(1 for it in row.told("mark").values() if it):
        return f"; the last offset of {plural(marked, 'partition')} is the mark of a transaction, which nobody reads"
    if clocks := row.told("other_clock"):
        return f"; by offsets: the timestamps of its records, up to {duration(max(clocks.values()))} old, are from before they came"
    if row.unowned_partitions:
        return f"; no member has {numbered('partition', row.unowned_partitions)}, where records wait"
    if row.batch_due_seconds is not None:
        return _of_batch(row)
    if row.comes_and_goes:
        return "; late more than once"
    if row.late_in_seconds is not None:
        return f"; late in {duration(row.late_in_seconds)} if it goes on"
    if row.steady:
        return "; as late all the time: on purpose, or for longer than the data show"
    if row.late is False and (never := without_commit(row)):
        return f"; no commit of {numbered('partition', never)} is known, where records are"
    behind = row.time_lag_seconds or 0.0
    rhythm = max((it.cadence_seconds or 0.0 for it in row.partitions), default=0.0)
    if not row.late and behind > row.objective_seconds and rhythm > row.objective_seconds / 2:
        return f"; it commits every {duration(rhythm)} or so"
    return ""


def _of_batch(row: Row) -> str:
    if row.batch_late is None:
        return f"; a batch: the data do not show whether messages from before {batch_due(row)} still wait"
    if row.batch_late:
        return f"; a batch: messages from before {batch_due(row)} still wait"
    if row.batch_every_seconds is not None:
        return f"; a batch: one run every {duration(row.batch_every_seconds)} is expected, and none is missing"
    return f"; a batch: {batch_due(row)} left nothing behind"


QUESTION = Node(
    id="lagging",
    by="gate",
    question="Is the group lagging: late, growing or stalled?",
    short="lagging?",
    rules=(
        # A batch is silent between two runs; what matters is whether the one that was due has read what was there.
        no("batch_drains", "a batch: it is reading", lambda row: _is_batch(row) and row.draining),
        yes(
            "batch_late",
            "a batch: messages from before the run that was due still wait",
            lambda row: row.batch_late,
        ),
        no(
            "batch_in_time",
            "a batch: the run that was due has read what was there",
            lambda row: row.batch_late is False,
        ),
        leaves_open(
            "batch_unknown",
            "a batch: the data do not reach back to the run that was due",
            _is_batch,
            look="load more: --baseline, at least the time since that run",
        ),
        leaves_open(
            "steady",
            "it is as late all the time: on purpose, or for longer than the data show",
            lambda row: row.steady,
            look="load more (--baseline 6h), or say what is expected: commit_every or time_lag_objective of the group",
        ),
        leaves_open(
            "batch_perhaps",
            "it usually has no members, and has stood still about as long before: it may be a batch whose time has not come",
            lambda row: row.batch_perhaps,
            look="say when it runs: batch of the group in the settings",
        ),
        yes(
            "behind",
            "it is late or grows, and does not catch up",
            lambda row: any_of(row.late, row.growing) is True and row.draining is not True,
        ),
        # What comes and goes is not over because it ends once more.
        yes(
            "again",
            f"it was late {plural(round(SEVERAL - 1), 'time')} or more in the window and may be so again, or has stood still again"
            " and again; or was late in the window, and rebalances as often as in a storm, still",
            lambda row: row.comes_and_goes or row.storms_on,
        ),
        # However few they still are.
        yes(
            "abandoned",
            "no member will read what waits, however little it is: the group usually has members and has none, or nobody has the"
            " partition",
            lambda row: row.abandoned,
        ),
        yes(
            "client_hangs",
            "a member does not poll, and partitions fall behind, or only their own client measures their lag",
            lambda row: row.hung_members and (row.by_client or bool(row.behind_partitions)),
        ),
        # An all-clear needs its proof.
        leaves_open(
            "dark",
            "the lag of some partitions was known and is not any more",
            lambda row: row.dark_partitions,
            look="ask Kafka: the partitions' leader, and who owns them",
        ),
        leaves_open(
            "unmoved",
            "records at the end of a partition have waited as long as the data show, and nothing arrives there",
            lambda row: row.unmoved_partitions,
            look="read the record at the commit",
        ),
        leaves_open(
            "short",
            "each commit rests one record before the end, whatever arrives: it is that of the last record instead of the next, or a"
            " record is handled when the next one comes",
            lambda row: row.short_partitions,
            look="whether the record at the commit was handled",
        ),
        leaves_open(
            "unproven",
            "only a commit since the last sample could make it well",
            lambda row: row.unproven and row.draining is not True,
            look="look again in a minute",
        ),
        leaves_open(
            "unseen",
            "its own client is all that measures its lag, and a paused one would show the same",
            lambda row: row.unseen and row.draining is not True,
            look="measure the lag from outside: a lag exporter, or Kafka itself",
        ),
        leaves_open(
            "unknown",
            "how long messages wait, or whether the lag grows, is not known",
            lambda row: row.late is None or row.growing is None,
            look="the log's end and the commit of each partition, from a lag exporter or Kafka itself",
        ),
        no(
            "keeps_up",
            "nothing is late, grows or stands still; or it is late and catches up in time (question 5)",
            always,
        ),
    ),
    yes=Ask("consuming"),
    words=words,
    needs=("time_lag", "log_end_offset"),
    measures=(
        Measure("time_lag", "time_lag_seconds", "s", threshold="time_lag_objective_seconds"),
        Measure("consumer_lag", "lag_messages", "messages"),
        Measure("consumer_lag", "lag_slope", "messages/s"),
        Measure("log_end_offset", "arrival_per_second", "messages/s arriving"),
    ),
    look="Compare the committed offsets with the log's ends",
)
