"""The tests of the first questions: is there data, was something lost, does it lag?"""

from __future__ import annotations

from workbench.settings import Thresholds
from workbench.triage.facts.unknown import Known, above, all_of, any_of, at_least, at_most, times
from workbench.triage.subscription import SubscriptionFeatures as Row

_MORE_FAIL = 3.0  # times the failures before
_MOST_FAIL = 0.5  # of the attempts, whatever it was before
_LONGER_SILENT = 3.0  # times the longest time without an arrival before


def is_usable(row: Row, _t: Thresholds) -> Known:
    """Whether the lag is known, recent and finite. Offsets that their source only repeats say nothing."""
    return all_of(
        row.lag_known_partitions > 0,
        at_most(row.last_sample_age_seconds, row.stale_seconds),
        row.lag_bad_samples <= row.lag_samples,
        row.repeated_seconds is None,
    )


def has_no_sample(row: Row, _t: Thresholds) -> bool:
    """Whether nothing was measured, or nothing lately."""
    if row.lag_bad_samples:
        return False
    is_old = above(row.last_sample_age_seconds, row.stale_seconds) is True
    return not row.lag_samples or (is_old and row.repeated_seconds is None)


def is_lost(row: Row, _t: Thresholds) -> Known:
    """Whether records were deleted or passed before they were read; open where they were passed too fast to be sure."""
    if (row.lost_messages or 0) > 0 or (row.skipped_messages or 0) > 0:
        return True
    return None if (row.doubtful_messages or 0) > 0 else False


def is_reset(row: Row, _t: Thresholds) -> Known:
    """Whether commits went back, or are above the log's end."""
    return (row.back_messages or 0) > 0 or (row.above_end_messages or 0) > 0


def is_lagging(row: Row, _t: Thresholds) -> Known:
    """Whether it is late, growing or stalled. An all-clear needs its proof."""
    drains = row.draining is True
    # A batch is silent between two runs; what matters is whether the one that was due has read what was there.
    if row.batch_due_seconds is not None:
        return all_of(row.batch_late, not drains)
    if row.by_client is True and row.hung_members:
        return True
    if row.steady or row.batch_perhaps:
        return None
    # What comes and goes is not over because it ends once more.
    again = row.comes_and_goes is True
    if row.just_resumed and not again:
        return None
    behind = any_of(row.late, row.growing)
    # Abandoned: no member will read these messages, however few they still are.
    if (behind is True and not drains) or row.stalled or again or row.abandoned is True:
        return True
    if row.dark_partitions or row.unmoved_partitions:
        return None
    if (row.unproven or row.unseen) and not drains:
        return None
    return None if row.late is None or row.growing is None else False


def is_draining(row: Row, _t: Thresholds) -> Known:
    """Whether it catches up."""
    return row.draining is True


def is_failing(row: Row, t: Thresholds) -> Known:
    """Whether more records fail than usual."""
    share = row.failing_share
    more = any_of(at_least(share, times(_MORE_FAIL, row.failing_baseline_share)), at_least(share, _MOST_FAIL))
    return all_of(at_least(share, t.failing_ratio), more) is True


def is_silent(row: Row, t: Thresholds) -> Known:
    """Whether nothing arrives, although records usually do."""
    quiet = row.quiet_seconds
    longer = at_least(quiet, times(_LONGER_SILENT, row.usual_gap_seconds))
    return all_of(at_least(quiet, t.silent_seconds), longer) is True


def has_recovered(row: Row, _t: Thresholds) -> bool:
    """Whether it was late in the window."""
    return row.recovered_seconds is not None
