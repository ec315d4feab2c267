"""Where the samples of a subscription are, in a table of any order."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from workbench.samples_by_subscription import SamplesBySubscription

_NAMES = st.one_of(st.none(), st.sampled_from("abcd"))


def _table(rows: list[tuple[str | None, str | None]]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in (0, 1)]
    return pa.table([*columns, pa.array(range(len(rows)))], names=["group", "topic", "number"])


@given(st.lists(st.tuples(_NAMES, _NAMES), max_size=40), st.sampled_from("abcd"), st.sampled_from("abcd"))
def test_what_is_about_a_subscription_is_found_without_a_search(
    rows: list[tuple[str | None, str | None]], group: str, topic: str
) -> None:
    """As a filter of the whole table finds it, in the same order."""
    found = SamplesBySubscription(_table(rows)).about(group, topic)
    assert found["number"].to_pylist() == [
        at for at, row in enumerate(rows) if row[0] in (group, None) and row[1] in (topic, None)
    ]


@given(st.lists(st.tuples(_NAMES, _NAMES), max_size=60), st.integers(1, 20))
def test_a_part_has_all_of_its_groups_and_of_their_logs(rows: list[tuple[str | None, str | None]], most: int) -> None:
    """Whatever stands between them in the table; a part of several groups is no larger than it may be."""
    parts = [it.to_pylist() for it in SamplesBySubscription(_table(rows)).by_groups(rows=most)]
    of_groups = Counter(row["number"] for part in parts for row in part if row["group"] is not None)
    assert of_groups == Counter(number for number, (group, _) in enumerate(rows) if group is not None)
    for part in parts:
        assert [row["number"] for row in part] == sorted({row["number"] for row in part})  # in order, and once
        topics = {row["topic"] for row in part if row["group"] is not None and row["topic"] is not None}
        logs = {number for number, (group, topic) in enumerate(rows) if group is None and topic in topics}
        assert {row["number"] for row in part if row["group"] is None} == logs
        assert len({row["group"] for row in part if row["group"] is not None}) == 1 or len(part) <= most
