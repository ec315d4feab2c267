"""Where the letters begin that came after a plan was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from workbench.queues.replay_port import Gateway
from workbench.redrive.planfile import RedrivePlan


class TopicFate(StrEnum):
    """What became of the dead-letter topic, with some or all of the letters that came after the plan."""

    RECREATED = "recreated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterLetters:
    """Offsets at which they begin, by partition: also in those that the plan does not know."""

    starts: Mapping[int, int]
    fate: TopicFate | None = None


def later_letters(plan: RedrivePlan, gateway: Gateway) -> LaterLetters:
    """Look at the dead-letter topic that is there now.

    Raises:
        SourceUnreachableError: if the cluster does not answer.
    """
    stops = {part.partition: part.stop for part in plan.partitions}
    view = gateway.cluster([plan.topic])
    topic = view.topics.get(plan.topic)
    if topic is None:  # one that may not be described is refused where its logs are asked for
        return (
            LaterLetters(starts=stops) if plan.topic in view.denied else LaterLetters(starts={}, fate=TopicFate.DELETED)
        )
    if topic.is_remade(plan.topic_id):
        return LaterLetters(starts=dict.fromkeys(topic.leaders, 0), fate=TopicFate.RECREATED)
    return LaterLetters(starts={**dict.fromkeys(topic.leaders, 0), **stops})
