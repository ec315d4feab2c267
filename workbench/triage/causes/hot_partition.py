"""A few partitions hold most of the lag."""

from __future__ import annotations

from workbench.humanize import count, counted, listed
from workbench.triage.actions import commonest_keys
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _headline(row: SubscriptionFeatures) -> str:
    hot = row.hot_partitions
    what = f"Partition {hot[0]} is" if len(hot) == 1 else f"Partitions {listed(hot)} are"
    return f"{what} hot: {counted(row.highest_lag, 'message')} behind, against a typical {count(row.typical_lag)}."


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    hot = row.hot_partitions
    shrink = Check(
        feature="partitions", field="lag_slope", items=tuple(str(number) for number in hot), relation="<", value=0.0
    )
    return [
        Action(
            title=f"Find the keys that go to partition {listed(hot)}, and whether they can be spread",
            command=commonest_keys(it, hot[0]),
            verify="you know the keys",
        ),
        Action(
            title="Spread them (append a salt to the key, or use another partitioner), if their order allows it",
            command=None,
            verify="the lag of these partitions shrinks towards that of the others",
            kind="spread_keys",
            parameters={"partitions": list(hot)},
            checks=(shrink,),
        ),
    ]


LEAF = Leaf(
    verdict=Verdict.HOT_PARTITION,
    headline=_headline,
    scope=lambda row: Scope(partitions=row.hot_partitions),
    actions=_actions,
)
