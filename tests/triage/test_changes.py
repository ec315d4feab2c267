"""What changed nearest before the onset is named with its distance; what changed yesterday, after it, or elsewhere is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from workbench.samples import SAMPLES_SCHEMA, SampleBatch
from workbench.triage.changes import nearest_change, words_of
from workbench.window import Window

END = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
WINDOW = Window.ending(END, length=timedelta(minutes=15), baseline=timedelta(hours=1))
SINCE = END - timedelta(minutes=6)
NOTHING = SAMPLES_SCHEMA.empty_table()


def event(seconds_before: float, text: str = "payments 142", **more: str) -> dict[str, str]:
    """A deploy so long before the onset."""
    return {"ts": (SINCE - timedelta(seconds=seconds_before)).isoformat(), "kind": "deploy", "text": text, **more}


def named(*events: dict[str, str], since: datetime | None = SINCE) -> str | None:
    """The words about the nearest change."""
    found = nearest_change(events, NOTHING, WINDOW, group="pay-1", topic="orders", since=since)
    return None if found is None else words_of(found)


def test_a_deploy_40_s_before_is_named_and_one_of_yesterday_is_not() -> None:
    """With the distance, and that it need not be the cause."""
    yesterday = event(86_400, "payments 141")
    assert named(yesterday) is None
    words = named(event(40), yesterday, event(900, "search 3"))
    assert words is not None
    assert words.startswith("40 s after deploy payments 142")
    assert "not necessarily the cause" in words


@pytest.mark.parametrize(
    "item",
    [
        event(-60),
        event(40, group="billing-*"),
        {**event(40), "kind": "alert"},
        {**event(40), "ts": "yesterday"},
        {"text": "no time"},
    ],
    ids=["after", "another_group", "an_alert_follows", "unreadable", "without_time"],
)
def test_what_cannot_have_come_before_is_not_named(item: dict[str, str]) -> None:
    """Nor anything if the onset is not known."""
    assert named(item) is None
    assert named(event(40), since=None) is None


def test_an_event_of_this_group_counts() -> None:
    """By pattern."""
    assert named(event(40, group="pay-*")) is not None


def test_restarts_and_new_partitions_are_read_from_the_samples() -> None:
    """They are there without anybody recording them."""
    batch = SampleBatch("c", "test")
    times = [round((END - timedelta(seconds=30 * n)).timestamp() * 1e6) for n in range(150)][::-1]
    started = (SINCE - timedelta(seconds=20)).timestamp()
    batch.add("start_time", {"group": "pay-1", "member": "m"}, times[-10:], [started] * 10)
    batch.add("log_end_offset", {"topic": "orders", "partition": 0}, times, [1.0] * 150)
    found = nearest_change([], batch.to_arrow(), WINDOW, group="pay-1", topic="orders", since=SINCE)
    assert found is not None
    assert (found.kind, round(found.seconds_before)) == ("restart", 20)
    batch.add("log_end_offset", {"topic": "orders", "partition": 1}, times[-14:], [1.0] * 14)
    found = nearest_change([], batch.to_arrow(), WINDOW, group="other", topic="orders", since=END)
    assert found is not None
    assert found.kind == "topic"
    assert "1 new partition" in found.text
