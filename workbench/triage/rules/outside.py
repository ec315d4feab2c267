"""Is it held up from outside: the broker, the network, more arrivals, too few members or partitions?"""

from __future__ import annotations

from workbench.numbers import APART, LESS, MORE, MOST, NOISE
from workbench.settings import Thresholds
from workbench.triage.facts.unknown import above, all_of, at_least, at_most, below, first_known, times
from workbench.triage.rule import Operand, always, leaves_open, no, proves, yes
from workbench.triage.rules.own_work import queues_are_full
from workbench.triage.subscription import SubscriptionFeatures as Row

_HOT = Operand("hot_arrival_ratio", "× a typical partition's arrivals", ">=", number=MORE)
_BURST = Operand("arrival_ratio", "× the baseline", ">=", setting="burst_ratio")


def is_burst(row: Row, t: Thresholds) -> bool:
    """Whether far more arrives than usual."""
    return at_least(row.arrival_ratio, t.burst_ratio) is True


def _may_be_throttled(row: Row, _t: Thresholds) -> bool:
    # Averages of the client (Java: over 30 s) begin low: one that waits, and is throttled at all, may be throttled for long.
    keeps = at_least(row.pace_ratio, LESS) is True
    return above(row.throttle_seconds, 0) is True and row.own_work is False and not keeps


THROTTLED = (
    proves(
        "told",
        "the client says that the broker makes it wait",
        lambda row, t: above(row.throttle_seconds, t.throttle_seconds),
        Operand("throttle_seconds", "s", ">", setting="throttle_seconds"),
    ),
    proves(
        "at_quota",
        "it reads what its quota allows, and no more",
        lambda row, _: row.throttle_seconds is None and row.at_quota,
    ),
    leaves_open(
        "a_little",
        "it waits, reads less than before, and is throttled at all: the client's average may be behind",
        _may_be_throttled,
        look="look again in a minute: the average follows",
    ),
    no("not", "the client says that the broker does not make it wait", lambda row, _: row.throttle_seconds is not None),
    leaves_open(
        "not_measured",
        "nothing shows whether the broker throttles it",
        always,
        look="the quotas of its user and client id: kafka-configs --describe",
    ),
)


def _round_trips(row: Row, t: Thresholds) -> bool | None:
    grown = at_least(row.rtt_seconds, times(t.rtt_ratio, row.rtt_baseline_seconds))
    return all_of(at_least(row.rtt_seconds, t.rtt_seconds), grown)


SLOW_NETWORK = (
    no(
        "delivers",
        "fetched messages wait in the client: the network delivers enough",
        lambda row, t: at_least(row.fetch_queue_mean, t.fetch_queue_messages),
        Operand("fetch_queue_mean", "messages", ">=", setting="fetch_queue_messages"),
    ),
    no(
        "nothing_fetched",
        "nothing at all was fetched: that is not slow, and makes no round trips to measure",
        lambda row, _: row.rtt_seconds is None and row.stall_cause is not None,
    ),
    proves(
        "slow",
        "round trips take far longer than before",
        _round_trips,
        Operand("rtt_seconds", "s", ">=", setting="rtt_seconds"),
        Operand("rtt_seconds", "s", ">=", setting="rtt_ratio", of="rtt_baseline_seconds"),
    ),
    no(
        "fast",
        "round trips are as fast as before, or fast enough",
        lambda row, t: _round_trips(row, t) is False,
        Operand("rtt_seconds", "s", "<", setting="rtt_seconds"),
    ),
    leaves_open(
        "not_measured",
        "round trips, or a good time to compare them with, are not known",
        always,
        look="the network between the members and the brokers",
    ),
)


def _are_few(row: Row, _t: Thresholds) -> bool:
    return 1 <= row.hot_count <= row.few_partitions


def _as_ever(row: Row, t: Thresholds) -> bool:
    if not _are_few(row, t) or row.queueless or not row.has_queues or queues_are_full(row) is True:
        return False
    grown = first_known(below(row.hot_growth, MORE), below(row.hot_arrival_ratio, MORE))
    return all_of(below(row.hot_arrival_ratio, t.hot_factor), grown) is True


def _gets_more(row: Row, t: Thresholds) -> bool:
    warm = at_least(row.hot_arrival_ratio, MORE) is not False
    grown = at_least(row.hot_growth, MORE) is not False or at_least(row.hot_arrival_ratio, t.hot_factor) is True
    return warm and grown


HOT_PARTITION = (
    proves(
        "surely",
        "a few partitions are behind, and get far more than the others: a quota or a slow network would hold up all",
        lambda row, _: row.surely_hot is True,
        Operand("hot_arrival_ratio", "× a typical partition's arrivals", ">=", number=APART),
    ),
    leaves_open(
        "dark",
        "how far behind those are that nobody measures any more is not known",
        lambda row, _: bool(set(row.hot_partitions) & set(row.dark_partitions)),
    ),
    no("spread", "the lag is not in a few partitions", lambda row, t: not _are_few(row, t)),
    leaves_open(
        "as_ever",
        "the largest get their usual share, and all queues are empty: something else holds them up",
        _as_ever,
        _HOT,
        look="what their members do, and which broker leads them",
    ),
    yes("gets_more", "a few partitions hold the lag, and get more than the others", _gets_more, _HOT),
    no(
        "others_too",
        "others are behind, too, and its own work takes the time",
        lambda row, _: row.own_work is True and not 1 <= len(row.behind_partitions) <= row.few_partitions,
    ),
    leaves_open(
        "room_elsewhere",
        "a few partitions hold the lag, and get no more than the others: more consumers for all are not what is missing",
        always,
        look="what their members do, and which broker leads them",
    ),
)

BURST = (
    yes("burst", "far more arrives than usual", is_burst, _BURST),
    no("usual", "no more arrives than usual, or what is usual is not known", always),
)


def _reads_more(row: Row, _t: Thresholds) -> bool:
    read = sum(p.committed_per_second or 0.0 for p in row.partitions)
    lately = above(row.committed_recent_per_second, times(MORE, row.arrival_per_second))
    return lately is True and above(read, row.arrival_per_second) is True


def _threads_hide_something(row: Row, _t: Thresholds) -> bool:
    as_before = at_most(row.loop_busy, times((1 + NOISE), row.loop_busy_baseline))
    return row.queueless and at_most(row.loop_busy, MOST) is True and as_before is True


TOO_FEW = (
    leaves_open(
        "reads_more",
        "more is read than arrives: no more room is wanted",
        _reads_more,
        Operand(
            "committed_recent_per_second",
            "messages/s",
            ">",
            number=MORE,
            of="arrival_per_second",
        ),
        look="look again in a minute: it may catch up",
    ),
    leaves_open(
        "hidden",
        "its threads never wait, and its handlers do no more than before: what takes the time is not measured",
        _threads_hide_something,
        look="a profile of the process",
    ),
    leaves_open(
        "lost_pace",
        "it reads less than before, with as many members: something slows it that was not found",
        lambda row, _: below(row.pace_ratio, LESS),
        Operand("pace_ratio", "× the pace before", "<", number=LESS),
        look="what changed when it began",
    ),
    yes(
        "fewer",
        "all other causes are ruled out, and there are fewer consumers than partitions",
        lambda row, _: below(row.group_members, row.partition_count),
        Operand("group_members", "members", "<", number=1.0, of="partition_count"),
    ),
    no(
        "as_many",
        "all other causes are ruled out, and there are as many consumers as partitions",
        lambda row, _: row.group_members is not None,
        Operand("group_members", "members", ">=", number=1.0, of="partition_count"),
    ),
    leaves_open("no_members", "the number of members is not known", always),
)
