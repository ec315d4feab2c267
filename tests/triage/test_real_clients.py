"""What librdkafka's statistics really look like: every partition for every member, one length for all that share a queue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stories import Story, lagging
from tests.triage.judging import rows_of

pytestmark = pytest.mark.jvm


def _as_clients_show_it(lengths: dict[str, float]) -> Story:
    """Partitions belong to the members in turn; each member lists all of them, with its own queue's length for its own."""
    story = lagging(Story(group="g", topic="t", partitions=4, members=2)).people()
    for number in range(4):
        for place, (member, length) in enumerate(lengths.items()):
            shown = length if number % len(lengths) == place else 0.0
            story.add("fetch_queue_length", shown, group="g", topic="t", partition=number, member=member)
    return story


def test_a_fetch_queue_is_its_owners_and_counts_once(spark: Any) -> None:
    """Not mixed with what the others list, and not as often as it has partitions."""
    [row] = rows_of(spark, [_as_clients_show_it({"m-0": 400.0, "m-1": 30.0})]).values()
    assert [it.fetch_queue_mean for it in row.partitions] == [400.0, 30.0, 400.0, 30.0]
    assert row.fetch_queue_mean == 430.0
    assert row.fetched_low == 400.0
