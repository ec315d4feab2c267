"""Is there data, was something lost, does it lag?"""

from __future__ import annotations

from workbench.numbers import FAR, MOST
from workbench.settings import Thresholds
from workbench.triage.facts.unknown import above, all_of, any_of, at_least, at_most, times
from workbench.triage.rule import Operand, always, leaves_open, no, yes
from workbench.triage.subscription import SubscriptionFeatures as Row

_AGE = Operand("last_sample_age_seconds", "s", "<=", number=1.0, of="stale_seconds")


def is_empty(row: Row, _t: Thresholds) -> bool:
    """Whether no partition has a record, by samples that are not old: then there is nothing to commit, and no lag to measure."""
    return bool(row.partitions) and all(
        all_of(
            at_most(p.log_end, p.log_start if p.log_start is not None else 0.0),
            at_most(times(-1, p.log_end_last_seconds), row.stale_seconds),
        )
        is True
        for p in row.partitions
    )


DATA_USABLE = (
    yes("empty", "no partition of the topic has a record", is_empty),
    no("no_lag", "no partition's lag is known", lambda row, _: row.lag_known_partitions == 0),
    no(
        "old",
        "the last sample is too old",
        lambda row, _: above(row.last_sample_age_seconds, row.stale_seconds),
        Operand("last_sample_age_seconds", "s", ">", number=1.0, of="stale_seconds"),
    ),
    no("repeated", "its source only repeats old offsets", lambda row, _: row.repeated_seconds is not None),
    no(
        "bad",
        "more samples are unusable than usable",
        lambda row, _: row.lag_bad_samples > row.lag_samples,
        Operand("lag_bad_samples", "samples", ">", number=1.0, of="lag_samples"),
    ),
    yes(
        "usable",
        "lag is known, recent and finite",
        lambda row, _: at_most(row.last_sample_age_seconds, row.stale_seconds),
        _AGE,
    ),
    leaves_open("no_age", "the age of the last sample is not known", always),
)


def has_no_sample(row: Row, _t: Thresholds) -> bool:
    """Whether nothing was measured, or nothing lately."""
    if row.lag_bad_samples:
        return False
    is_old = above(row.last_sample_age_seconds, row.stale_seconds) is True
    return not row.lag_samples or (is_old and row.repeated_seconds is None)


LOST = (
    yes("deleted", "retention deleted records before they were read", lambda row, _: above(row.lost_messages, 0)),
    yes("skipped", "commits passed records that nobody read", lambda row, _: above(row.skipped_messages, 0)),
    leaves_open(
        "doubtful",
        "commits passed records so fast that they were skipped, or read by a consumer with much room",
        lambda row, _: above(row.doubtful_messages, 0),
        look="compare with what the handlers counted, or with what they wrote",
    ),
    no("none", "the offsets show no record that was passed unread", always),
)

RESET = (
    yes("back", "commits went back", lambda row, _: above(row.back_messages, 0)),
    yes("above_end", "commits are above the log's end", lambda row, _: above(row.above_end_messages, 0)),
    no("forward", "commits only went forward, up to the log's end", always),
)


def _is_behind(row: Row) -> bool:
    return any_of(row.late, row.growing) is True and row.draining is not True


def _is_batch(row: Row) -> bool:
    return row.batch_due_seconds is not None


LAGGING = (
    no("empty", "no partition of the topic has a record", is_empty),
    # A batch is silent between two runs; what matters is whether the one that was due has read what was there.
    no("batch_drains", "a batch: it is reading", lambda row, _: _is_batch(row) and row.draining is True),
    yes(
        "batch_late",
        "a batch: messages from before the run that was due still wait",
        lambda row, _: _is_batch(row) and row.batch_late is True,
    ),
    no(
        "batch_in_time",
        "a batch: the run that was due has read what was there",
        lambda row, _: _is_batch(row) and row.batch_late is False,
    ),
    leaves_open(
        "batch_unknown",
        "a batch: the data do not reach back to the run that was due",
        lambda row, _: _is_batch(row),
        look="load more: --baseline, at least the time since that run",
    ),
    yes(
        "client_hangs",
        "its own client is all that measures its lag, and that does not poll",
        lambda row, _: row.by_client is True and bool(row.hung_members),
    ),
    leaves_open(
        "steady",
        "it is as late all the time: on purpose, or for longer than the data show",
        lambda row, _: row.steady,
        look="load more (--baseline 6h), or say what is expected: commit_every or time_lag_objective of the group",
    ),
    leaves_open(
        "batch_perhaps",
        "it usually has no members, and stood still before the data began: it may be a batch whose time has not come",
        lambda row, _: row.batch_perhaps,
        look="say when it runs: batch of the group in the settings",
    ),
    leaves_open(
        "just_resumed",
        "it has begun to move again, too lately to say how fast",
        lambda row, _: row.just_resumed and row.comes_and_goes is not True,
        look="look again in a minute",
    ),
    yes("behind", "it is late or grows, and does not catch up", lambda row, _: _is_behind(row)),
    yes("stalled", "partitions stand still while messages wait", lambda row, _: row.stalled),
    # What comes and goes is not over because it ends once more.
    yes("again", "it is late again and again", lambda row, _: row.comes_and_goes is True),
    # However few they still are.
    yes("abandoned", "no member will read what waits", lambda row, _: row.abandoned is True),
    # An all-clear needs its proof.
    leaves_open(
        "dark",
        "the lag of some partitions was known and is not any more",
        lambda row, _: bool(row.dark_partitions),
        look="ask Kafka: the partitions' leader, and who owns them",
    ),
    leaves_open(
        "unmoved",
        "records at the end of a partition have waited as long as the data show, and nothing arrives there",
        lambda row, _: bool(row.unmoved_partitions),
        look="read the record at the commit",
    ),
    leaves_open(
        "unproven",
        "only a commit since the last sample could make it well",
        lambda row, _: row.unproven and row.draining is not True,
        look="look again in a minute",
    ),
    leaves_open(
        "unseen",
        "its own client is all that measures its lag, and a paused one would show the same",
        lambda row, _: row.unseen and row.draining is not True,
        look="measure the lag from outside: a lag exporter, or Kafka itself",
    ),
    leaves_open(
        "unknown",
        "neither age nor trend of the lag is known",
        lambda row, _: row.late is None or row.growing is None,
    ),
    no("keeps_up", "nothing is late, grows or stands still", always),
)

DRAINING = (
    yes("drains", "each partition that is behind catches up in time", lambda row, _: row.draining is True),
    no("not_behind", "nothing has to be caught up", always),
)


def _fails(row: Row, t: Thresholds) -> bool:
    more = any_of(
        at_least(row.failing_share, times(FAR, row.failing_baseline_share)),
        at_least(row.failing_share, MOST),
    )
    return all_of(at_least(row.failing_share, t.failing_ratio), more) is True


FAILING = (
    yes(
        "more_fail",
        "far more attempts fail than before",
        _fails,
        Operand("failing_share", "of the attempts", ">=", setting="failing_ratio"),
        Operand("failing_share", "of the attempts", ">=", number=FAR, of="failing_baseline_share"),
    ),
    no("as_before", "no more attempts fail than before, or nobody counts them", always),
)


def _is_silent(row: Row, t: Thresholds) -> bool:
    longer = at_least(row.quiet_seconds, times(FAR, row.usual_gap_seconds))
    return all_of(at_least(row.quiet_seconds, t.silent_seconds), longer) is True


SILENT = (
    yes(
        "silent",
        "nothing has arrived for far longer than ever before",
        _is_silent,
        Operand("quiet_seconds", "s", ">=", setting="silent_seconds"),
        Operand("quiet_seconds", "s", ">=", number=FAR, of="usual_gap_seconds", why="longer than any gap so far"),
    ),
    no("arrives", "records arrive as usual", always),
)


def has_recovered(row: Row, _t: Thresholds) -> bool:
    """Whether it was late in the window."""
    return row.recovered_seconds is not None
