"""Where the samples of a subscription are, in a table of any order."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from workbench.samples_by_subscription import SamplesBySubscription

_NAMES = st.one_of(st.none(), st.sampled_from("abcd"))


@given(st.lists(st.tuples(_NAMES, _NAMES), max_size=40), st.sampled_from("abcd"), st.sampled_from("abcd"))
def test_what_is_about_a_subscription_is_found_without_a_search(
    rows: list[tuple[str | None, str | None]], group: str, topic: str
) -> None:
    """As a filter of the whole table finds it, in the same order."""
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in (0, 1)]
    table = pa.table([*columns, pa.array(range(len(rows)))], names=["group", "topic", "number"])
    found = SamplesBySubscription(table).about(group, topic)
    assert found["number"].to_pylist() == [
        at for at, row in enumerate(rows) if row[0] in (group, None) and row[1] in (topic, None)
    ]
