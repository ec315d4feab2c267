"""A few partitions hold most of the lag."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.humanize import count, counted, listed, numbered, plural
from workbench.judgement_numbers import APART, BUSY, FAR, MORE
from workbench.triage.action_subject import Subject
from workbench.triage.facts.unknown_numbers import at_least
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, proves, yes
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict


def _words(row: Row) -> str:
    if row.hot_count:
        return (
            f"{plural(row.hot_count, 'partition')} ({listed(row.hot_partitions)}) up to {counted(row.highest_lag, 'message')}, "
            f"typical {count(row.typical_lag)}"
        )
    return f"highest {counted(row.highest_lag, 'message')}, typical {count(row.typical_lag)}"


QUESTION = Node(
    id="hot_partition",
    question="Is most of the lag in a few partitions?",
    short="hot partitions?",
    rules=(
        proves(
            "surely",
            "a few partitions are behind, none stands still or may have stopped, and they get more than the others and have grown"
            f" {MORE:g} × as much (where before is not known, and it has no queues: they get {FAR:g} × a typical one): a quota or a"
            " slow network would hold up all",
            lambda row: row.surely_hot,
            Operand("hot_arrival_ratio", "× a typical partition's arrivals", ">=", number=APART),
        ),
        no("spread", "no few partitions hold the lag", lambda row: not 1 <= row.hot_count <= row.few_partitions),
        yes(
            "gets_more",
            "a few partitions hold the lag, and what they get has grown more than the rest",
            lambda row: at_least(row.hot_growth, MORE) is True and at_least(row.hot_arrival_ratio, MORE) is not False,
            Operand("hot_growth", "× the growth of the rest", ">=", number=MORE),
            Operand("hot_arrival_ratio", "× a typical partition's arrivals", ">=", number=MORE),
        ),
        # Some partitions get more at all times: where what they got before is known, it has to be more than one consumer can read.
        yes(
            "gets_far_more",
            "a few partitions hold the lag, and get far more than the others; what they got before is not known, or its own work is"
            f" the limit and what arrives there takes {BUSY:g} of a thread's time, or more",
            lambda row: (
                at_least(row.hot_arrival_ratio, FAR) is True and (row.hot_growth is None or row.hot_fills_a_thread)
            ),
            Operand("hot_arrival_ratio", "× a typical partition's arrivals", ">=", number=FAR),
        ),
        yes(
            "alone",
            "a few partitions hold the lag, and what arrives is not measured: a lag exporter shows no more",
            lambda row: row.hot_growth is None and row.hot_arrival_ratio is None,
        ),
        no(
            "others_too",
            "its own work is the limit, and those that are behind are not just a few",
            lambda row: row.own_work and not 1 <= len(row.behind_partitions) <= row.few_partitions,
        ),
        leaves_open(
            "room_elsewhere",
            "a few partitions hold the lag, and nothing shows that one consumer cannot read what they get: more consumers for all are"
            " not what is missing",
            always,
            look="what their members do, and which broker leads them",
        ),
    ),
    yes=Conclude(Verdict.HOT_PARTITION),
    words=_words,
    needs=("consumer_lag",),
    measures=(
        Measure("consumer_lag", "highest_lag", "messages", peers="typical_lag"),
        Measure("log_end_offset", "hot_arrival_ratio", "× a typical partition's arrivals"),
        Measure("consumer_lag", "hot_count", "hot partitions"),
    ),
    contributes=True,
)


def _headline(row: Row) -> str:
    hot = row.hot_partitions
    late = f"{counted(row.highest_lag, 'message')} behind, against a typical {count(row.typical_lag)}"
    return f"{numbered('Partition', hot)} {'is' if len(hot) == 1 else 'are'} hot: {late}."


def _actions(it: Subject, row: Row) -> list[Action]:
    hot = row.hot_partitions
    shrink = Check("partitions", "<", 0.0, field="lag_slope", items=tuple(str(number) for number in hot))
    return [
        Action(
            title=f"Find the keys that go to partition {listed(hot)}, and whether they can be spread",
            command=it.tools.commonest_keys(it.topic, hot[0]),
            verify="you know the keys",
        ),
        Action(
            title="Spread them (append a salt to the key, or use another partitioner), if their order allows it",
            verify="the lag of these partitions shrinks towards that of the others",
            kind="spread_keys",
            parameters={"partitions": list(hot)},
            checks=(shrink,),
        ),
    ]


def _share(row: Row, _arriving: float) -> Iterator[tuple[str, float]]:
    if row.hot_partitions and row.answers.get("hot_partition") is Answer.YES:
        hot = [it for it in row.partitions if it.partition in row.hot_partitions]
        words = f"{numbered('partition', row.hot_partitions)} {'gets' if len(hot) == 1 else 'get'} more than one consumer can read"
        yield words, sum(max(0.0, it.lag_slope or 0.0) for it in hot)


LEAF = Leaf(
    verdict=Verdict.HOT_PARTITION,
    headline=_headline,
    scope=lambda row: Scope(partitions=row.hot_partitions),
    actions=_actions,
    share=_share,
)
