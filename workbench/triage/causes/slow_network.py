"""Round trips between members and brokers take longer than their baseline."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from workbench.features.subscription_measurements import MemberFeatures
from workbench.humanize import counted, duration, listed
from workbench.humanize import times as multiple
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, proves
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict


def _limit(row: Row) -> float:
    return max(row.limits.rtt_seconds, (row.rtt_baseline_seconds or 0) * row.limits.rtt_ratio)


def _slow_members(row: Row) -> list[MemberFeatures]:
    return [it for it in row.members if (it.rtt_seconds or 0) >= _limit(row)]


def _some_keep_up(row: Row) -> bool:
    each = max(1, floor(row.each_members_partitions or 1))
    return (
        row.slow_round_trips is True
        and row.few_are_behind
        and len(_slow_members(row)) > len(row.behind_partitions) // each
    )


def _words(row: Row) -> str:
    if row.fetch_queue_mean is None:
        waiting = "what waits in the clients is not measured"
    elif row.fetch_queue_mean >= 1:
        waiting = f"{counted(row.fetch_queue_mean, 'fetched message waits', 'fetched messages wait')} in the clients"
    else:
        waiting = "no fetched messages wait in the clients"
    if row.rtt_seconds is None:
        return f"{waiting}, no round-trip times"
    if row.behind_stand_still:
        return f"{waiting}; nothing of what is behind is read, so the time that fetches take says nothing of the path"
    was = f", was {duration(row.rtt_baseline_seconds)}" if row.rtt_baseline_seconds is not None else ""
    return f"round trips {duration(row.rtt_seconds)}{was}; {waiting}"


QUESTION = Node(
    id="slow_network",
    question="Are fetches or round trips slow?",
    short="network slow?",
    rules=(
        no(
            "delivers",
            "fetched messages wait in the client: the network delivers enough",
            Operand("fetch_queue_mean", "messages", ">=", setting="fetch_queue_messages"),
        ),
        no(
            "keeps_up",
            "members whose round trips are long keep up: a slow path holds up all of a member, and a fetch that waits for records"
            " is long, too",
            _some_keep_up,
        ),
        no(
            "fast",
            "round trips are as fast as before, or fast enough",
            lambda row: row.slow_round_trips is False,
            Operand("rtt_seconds", "s", "<", setting="rtt_seconds"),
        ),
        no(
            "nothing_fetched",
            "nothing of what is behind is read: a slow path lets some through, and a fetch that gets nothing lasts as long as it may",
            lambda row: row.behind_stand_still,
        ),
        proves(
            "slow",
            "round trips take far longer than before",
            Operand("rtt_seconds", "s", ">=", setting="rtt_seconds"),
            Operand("rtt_seconds", "s", ">=", setting="rtt_ratio", of="rtt_baseline_seconds"),
        ),
        leaves_open(
            "not_measured",
            "round trips, or a good time to compare them with, are not known",
            always,
            look="the network between the members and the brokers",
        ),
    ),
    yes=Conclude(Verdict.SLOW_NETWORK),
    words=_words,
    needs=("broker_rtt", "fetch_queue_length"),
    measures=(
        Measure("broker_rtt", "rtt_seconds", "s", threshold="rtt_seconds", baseline="rtt_baseline_seconds"),
        Measure("fetch_queue_length", "fetch_queue_mean", "messages", threshold="fetch_queue_messages"),
    ),
    contributes=True,
)


def _headline(row: Row) -> str:
    now, before = duration(row.rtt_seconds), duration(row.rtt_baseline_seconds)
    return f"The network is slow: round trips take {now}, baseline {before}."


def _scope(row: Row) -> Scope:
    slow = [m for m in row.members if m.rtt_seconds == row.rtt_seconds]
    return Scope(
        members=tuple(m.member for m in slow), brokers=tuple(sorted({m.rtt_broker for m in slow if m.rtt_broker}))
    )


def _actions(_it: Subject, row: Row) -> list[Action]:
    slow, limit = _slow_members(row), _limit(row)
    ways = sorted({f"{m.member} → {f'broker {m.rtt_broker}' if m.rtt_broker else 'the brokers'}" for m in slow})
    others_are_fast = any(m.live and m.rtt_seconds is not None for m in row.members if m not in slow)
    fast = (Check("rtt_seconds", "<", limit),)
    return [
        Action(
            title=f"Check the network path {listed(ways, most=3)}",
            verify=f"round trips are below {duration(limit)}; before, they took {duration(row.rtt_baseline_seconds)}",
            checks=fast,
        ),
        # What is slow for all of them at once goes with them.
        *([_move(slow, limit, fast)] if others_are_fast or len(slow) == 1 else []),
    ]


def _move(slow: list[MemberFeatures], limit: float, fast: tuple[Check, ...]) -> Action:
    return Action(
        title="Restart these members on another host or in another zone, with a better network path",
        verify=f"round trips are below {duration(limit)}",
        kind="move_members",
        parameters={"members": sorted(m.member for m in slow)},
        checks=fast,
    )


def is_slow(row: Row) -> bool:
    """Whether round trips are long, also if they are not the limit.

    A client that is busy with its own work fetches rarely, and Java's time of a fetch contains the wait for records: there, only
    those count that are longer than that.
    """
    if row.surely_slow_network:
        return True
    return row.answers.get("slow_network") is Answer.YES and not (row.queueless and row.own_work is True)


def _share(row: Row, arriving: float) -> Iterator[tuple[str, float]]:
    now, usual = row.rtt_seconds, row.rtt_baseline_seconds
    if is_slow(row) and now and usual:
        yield f"round trips take {multiple(now / usual)} their usual time", arriving * (1 - usual / now)


LEAF = Leaf(verdict=Verdict.SLOW_NETWORK, headline=_headline, scope=_scope, actions=_actions, share=_share)
