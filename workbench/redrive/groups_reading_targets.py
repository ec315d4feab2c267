"""Who reads the targets of a redrive: groups that have handled its records already get them again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.humanize import listed
from workbench.queues.snapshot_views import Partition
from workbench.redrive.planfile import RedrivePlan

Readers = Mapping[str, Mapping[Partition, int]]  # group to its committed offsets on the targets


def audience_words(plan: RedrivePlan, readers: Readers | None) -> list[str]:
    """A sentence for each kind of reader of each target: who has read past the records, who only reads the topic, who gave them up.

    Args:
        readers: without the groups of redrive plans; None: it cannot be told.
    """
    if not plan.targets:
        return []
    if readers is None:
        names = listed([it.topic for it in plan.targets])
        return [f"Cannot tell which groups read {names}: those that have handled these records already get them again."]
    found = []
    gave_up = set(plan.gave_up)
    for target in plan.targets:
        first = {number: low for number, low, _ in target.origins}
        mine = {
            group: {key[1]: at for key, at in commits.items() if key[0] == target.topic}
            for group, commits in readers.items()
        }
        reading = sorted(group for group, commits in mine.items() if commits and group not in gave_up)
        past = [group for group in reading if any(mine[group].get(number, 0) > low for number, low in first.items())]
        others = [group for group in reading if group not in past]
        if past:
            found.append(_sentence(past, target.topic, "read past these records already, and get them again"))
        if others:
            found.append(_sentence(others, target.topic, "committed offsets there: they get the records, too"))
    if gave_up:
        found.append(f"Gave these letters up, by their headers: {_names(sorted(gave_up))}.")
    return found


def _sentence(groups: Sequence[str], topic: str, what: str) -> str:
    return f"Groups of {topic} that have {what}: {_names(groups)}."


def _names(groups: Sequence[str]) -> str:
    return listed([repr(group) for group in groups])
