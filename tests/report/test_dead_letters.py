"""Dead letters of a health report, from samples alone: new, read, never looked at; by convention or by the settings' names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from tests.test_safe_output import HOSTILE, STEERS
from workbench.report.dead_letters import DeadLetterLine, dead_letters_in
from workbench.samples import SampleBatch

END = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
START = END - timedelta(hours=1)


def samples(
    topic: str, ends: list[float], *, start: float | None = 0.0, lags: dict[str, float] | None = None, parts: int = 2
) -> pa.Table:
    """A sample of each partition's log end in equal steps over the hour, and of lag at its end."""
    batch = SampleBatch("c", "test")
    step = 3600 / (len(ends) - 1) if len(ends) > 1 else 0.0
    for number in range(parts):
        labels = {"topic": topic, "partition": number}
        times = [round((START.timestamp() + at * step) * 1e6) for at in range(len(ends))]
        batch.add("log_end_offset", labels, times, ends)
        if start is not None:
            batch.add("log_start_offset", labels, times[-1:], [start])
        for group, lag in (lags or {}).items():
            batch.add("consumer_lag", {**labels, "group": group}, times[-1:], [lag])
    return batch.to_arrow()


def line_of(table: pa.Table, **options: tuple[str, ...]) -> DeadLetterLine:
    """The only line."""
    (found,) = dead_letters_in(table, start=START, end=END, **options)
    return found


def test_new_letters_and_whether_they_keep_coming() -> None:
    """Two partitions count together; both halves of the period must have some before they "keep coming"."""
    once = line_of(samples("orders-dlt", [5, 5, 9, 9, 9]))
    assert (once.letters, once.new, once.grows) == (18, 8, False)
    assert once.first_at == once.last_at == START + timedelta(minutes=30)
    on = line_of(samples("orders-dlt", [5, 6, 7, 8, 9]))
    assert (on.new, on.grows) == (8, True)
    assert "more keep coming" in on.words
    assert line_of(samples("orders-dlt", [5, 5])).words.startswith("Nothing new in the period.")
    assert line_of(samples("orders-dlt", [5])).new is None
    assert line_of(samples("orders-dlt", [5, 5], start=5)).words == "Empty."


def test_a_letter_is_read_once_one_reader_has_passed_it() -> None:
    """The reader that is furthest counts; a redrive plan is a reader; without any, nobody has looked."""
    none = line_of(samples("orders-dlt", [5, 5]))
    assert (none.readers, none.unread) == ((), 10)
    assert "Never looked at" in none.words
    two = line_of(samples("orders-dlt", [5, 5], lags={"slow": 5, "retry": 2}))
    assert (two.readers, two.unread) == (("retry", "slow"), 4)
    assert "Never" not in two.words
    plan = line_of(samples("orders-dlt", [5, 5], lags={"workbench-redrive-aa": 0}))
    assert plan.unread == 0
    assert "All read" in plan.words
    assert line_of(samples("orders-dlt", [5, 5], start=None)).letters is None


def test_letters_that_came_after_the_last_sample_of_a_reader_are_unread() -> None:
    """A reader that read everything in the morning and has gone has passed nothing of the afternoon; another one may have."""
    batch = SampleBatch("c", "test")
    times = [round((START + timedelta(minutes=minute)).timestamp() * 1e6) for minute in range(0, 61, 10)]
    labels = {"topic": "orders-dlt", "partition": 0}
    batch.add("log_end_offset", labels, times, [5, 5, 5, 7, 8, 8, 12])
    batch.add("log_start_offset", labels, times, [0] * 7)
    batch.add("consumer_lag", {**labels, "group": "gone"}, times[:3], [2, 1, 0])
    gone = line_of(batch.to_arrow())
    assert (gone.new, gone.unread, gone.readers) == (7, 7, ("gone",))
    assert "7 that no reader has passed" in gone.words
    batch.add("consumer_lag", {**labels, "group": "here"}, times[:5], [0, 0, 0, 0, 1])
    assert line_of(batch.to_arrow()).unread == 5


def test_topics_are_found_by_convention_or_by_the_settings() -> None:
    """Most new ones first; a name from outside steers nothing."""
    table = pa.concat_tables([samples("orders", [1, 2]), samples("a.DLQ", [1, 2]), samples("b-dlt", [1, 9])])
    assert [it.topic for it in dead_letters_in(table, start=START, end=END)] == ["b-dlt", "a.DLQ"]
    assert [it.topic for it in dead_letters_in(table, start=START, end=END, patterns=["ord*"])] == ["orders"]
    wild = line_of(samples(HOSTILE, [1, 2], lags={HOSTILE: 1}), patterns=("*",))
    assert not STEERS.search(wild.topic + wild.words + "".join(wild.readers))
