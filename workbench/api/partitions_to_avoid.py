"""Partitions that a producer should leave out while the group that reads them is far behind there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.queues.partitions_to_avoid import Exclusion, ExclusionRule


def exclude_partitions(
    *,
    cluster: str,
    group: str,
    topic: str,
    file: str | Path | None = None,
    write: bool = False,
    rule: ExclusionRule | None = None,
    config: Path | None = None,
) -> Exclusion:
    """Find the partitions of a topic to leave out, by a group's lag now.

    Args:
        file: the list that producers read; what is in it now comes back later than it went in. None: nothing is left out now.
        write: also write the list.
        rule: None: three times the others, over 1,000 messages, a fifth of the partitions at most.

    Raises:
        UsageError: if the group does not read the topic, or the file is no list. SourceUnreachableError: if nobody answers.
        UnknownGroupError: if there is no such group.
    """
    from workbench.queues.partitions_to_avoid import exclude, read_list, write_list
    from workbench.queues.systems import not_there, system_of
    from workbench.settings import load_settings

    chosen = load_settings(config).cluster(cluster)
    if chosen.system != "kafka":
        raise not_there(chosen, "Leaving partitions out does")
    found = system_of(chosen).observer(chosen).snapshot(groups=[group])
    view = system_of(chosen).gateway(chosen).cluster([topic]).topics.get(topic)
    if view is None:
        raise UsageError(f"The cluster {cluster} has no topic {topic!r}.")
    lags = {number: found.lag(group, topic, number) for number in sorted(view.leaders)}
    if all(lag is None for lag in lags.values()):
        raise UsageError(
            f"The group {group!r} has no commit on {topic!r}.", hint="Name the group that reads the topic."
        )
    listed = None if file is None else read_list(Path(file))
    result = exclude(lags, before=() if listed is None else listed.of(topic), rule=rule)
    if write and listed is not None:
        write_list(Path(file or ""), listed.with_topic(topic, result.partitions))
    return result
