"""What happens to offsets, records and producers: seen just over each threshold, and not just under it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.triage.judging import rows_of
from workbench.profiles import load_profile
from workbench.samples import SampleBatch, concat
from workbench.thresholds import Thresholds
from workbench.triage.build_finding import build_finding
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Verdict
from workbench.window import Window

pytestmark = pytest.mark.jvm

END = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
WINDOW = Window.ending(END, length=timedelta(minutes=15), baseline=timedelta(hours=1))
TIMES = np.arange(-4500.0, 1.0, 30.0)
RATE = 50.0
Line = np.ndarray


@dataclass
class Group:
    """One partition with its offsets; a member that polls, with queues that are empty and handlers at their usual pace."""

    name: str
    end: Line
    committed: Line
    start: Line | None = None
    failed: Line | None = None
    word: str = "failed"  # as which these are counted; "value": all are counted alike
    done: Line | None = None  # records that were handled; None: all that commits have passed
    members: int = 1
    counted: bool = True  # its handlers

    def samples(self) -> pa.Table:
        """As an exporter and the runtime show it."""
        batch = SampleBatch("c", "runtime")
        stamps = np.round((END.timestamp() + TIMES) * 1e6).astype(np.int64)
        log = {"topic": self.name, "partition": 0}
        place = {"group": self.name, **log}
        member = {"group": self.name, "member": "m"}
        batch.add("log_end_offset", log, stamps, self.end)
        batch.add("log_start_offset", log, stamps, np.zeros(len(TIMES)) if self.start is None else self.start)
        batch.add("committed_offset", place, stamps, self.committed)
        batch.add("consumer_lag", place, stamps, np.maximum(self.end - self.committed, 0))
        batch.add("group_members", {"group": self.name}, stamps, np.full(len(TIMES), float(self.members)))
        batch.add("poll_age", member, stamps, np.full(len(TIMES), 0.1))
        batch.add("rebalances", member, stamps, np.ones(len(TIMES)))
        batch.add("throttle_time", {**member, "broker": "1"}, stamps, np.zeros(len(TIMES)))
        batch.add("broker_rtt", {**member, "broker": "1"}, stamps, np.full(len(TIMES), 0.01))
        batch.add("fetch_queue_length", place, stamps, np.zeros(len(TIMES)))
        handler = {"group": self.name, "topic": self.name, "member": "m", "processor": "order"}
        queue = {"group": self.name, "member": "m", "processor": "order", "queue": "0"}
        batch.add("queue_length", queue, stamps, np.zeros(len(TIMES)))
        batch.add("queue_capacity", queue, stamps, np.full(len(TIMES), 100.0))
        if not self.counted:
            return batch.to_arrow()
        done = (self.committed if self.done is None else self.done) - self.committed[0] + 100.0
        batch.add("process_time", handler, stamps, done, stat="count")
        batch.add("process_time", handler, stamps, done * 0.01, stat="sum")
        failed = np.zeros(len(TIMES)) if self.failed is None else self.failed
        if self.word != "value":
            batch.add("processed", handler, stamps, done - failed, stat="ok")
        batch.add("processed", handler, stamps, failed if self.word != "value" else done, stat=self.word)
        return batch.to_arrow()


def arriving(rate: float = RATE) -> Line:
    """A log that grows evenly."""
    return np.floor(1e6 + rate * (TIMES - TIMES[0]))


def followed(end: Line) -> Line:
    """Commits a second behind."""
    return np.floor(end - RATE)


def burst(name: str, ratio: float) -> Group:
    """So many times the arrivals for the last 20 min, of which the group reads a little more than the usual."""
    later = np.maximum(0.0, TIMES + 1200)
    end = np.floor(1e6 + RATE * (TIMES - TIMES[0]) + (ratio - 1) * RATE * later)
    return Group(name, end, np.floor(1e6 + RATE * (TIMES - TIMES[0]) + 0.1 * RATE * later - RATE))


def failing(name: str, share: float) -> Group:
    """So many of the attempts of the last 20 min fail."""
    end = arriving()
    done = followed(end)
    return Group(name, end, done, failed=np.floor(share * np.maximum(0.0, done - done[TIMES <= -1200][-1])))


def silent(name: str, seconds: float) -> Group:
    """The last record came so long ago, up to a scrape."""
    end = np.floor(1e6 + RATE * (np.minimum(TIMES, -seconds) - TIMES[0]))
    return Group(name, end, end.copy())


def jump(name: str, ratio: float) -> Group:
    """It stood still for some minutes, and then reached the end within a scrape, at so many times the usual pace; nobody counts."""
    end = arriving(3_000.0)
    at = int(np.flatnonzero(TIMES >= -600)[0])
    still = round(ratio) - 1  # scrapes
    committed = end - 3_000.0
    committed[at - still : at] = committed[at - still - 1]
    committed[at:] = end[at:] - 1
    return Group(name, end, committed, counted=False)


def batch_passed(name: str, ratio: float) -> Group:
    """A batch came, and it stood still for 4 min, no longer than a deploy; then it reached the end as `jump` does; nobody counts."""
    end = arriving(3_000.0)
    at = int(np.flatnonzero(TIMES >= -600)[0])
    committed = end - 3_000.0
    # What a scrape usually brings grows with the batch itself: it is the mean of all that arrived.
    spacing = float(TIMES[1] - TIMES[0])
    span = float(TIMES[-1] - TIMES[0])
    end[at - 8 :] += (ratio - 9.0) * 3_000.0 * spacing / (1 - ratio * spacing / span)
    committed[at - 8 : at] = committed[at - 9]
    committed[at:] = end[at:] - 1
    return Group(name, end, committed, counted=False)


def read_fast(name: str) -> Group:
    """The same as `jump`, but as many records were handled: it has much room, and was really read."""
    return replace(jump(name, 22.0), counted=True)


def no_records(name: str) -> Group:
    """A commit that was late passes offsets of a compacted topic at a pace that nobody reads at; nobody counts."""
    return jump(name, 40.0)


def skipped(name: str, ratio: float = 8.0) -> Group:
    """The same at a pace that many a consumer has; its handlers have done no more than usually."""
    found = jump(name, ratio)
    at = int(np.flatnonzero(TIMES >= -600)[0])
    done = found.committed.copy()
    done[at:] -= found.committed[at] - found.committed[at - 1] - 30 * 3_000.0
    return replace(found, done=done, counted=True)


@dataclass(frozen=True)
class Edge:
    """A story with one number, just under and just over its threshold, and what it is over it."""

    make: Callable[[str, float], Group]
    under: float
    over: float
    verdict: Verdict


EDGES = {
    "burst_ratio": Edge(burst, 1.9, 2.1, Verdict.BURST),
    "failing_ratio": Edge(failing, 0.018, 0.022, Verdict.FAILING_RECORDS),
    "silent_seconds": Edge(silent, 280.0, 345.0, Verdict.PRODUCER_SILENT),
    "skip_pace_ratio": Edge(batch_passed, 18.0, 22.0, Verdict.CANNOT_TELL),
}


def lost(name: str) -> Group:
    """It stood still, retention passed it, and it went on at the end."""
    end = arriving()
    committed = followed(end)
    gap = (TIMES > -2400) & (TIMES <= -600)
    committed[gap] = committed[TIMES <= -2400][-1]
    start = np.where(TIMES > -900, end[TIMES <= -1200][-1], 0.0)
    return Group(name, end, committed, start)


def follows(name: str) -> Group:
    """Records are deleted once they are read."""
    end = arriving()
    committed = followed(end)
    return Group(name, end, committed, start=np.maximum(0.0, committed - 20))


def back(name: str) -> Group:
    """Reset to an earlier offset ten minutes ago, and reading again."""
    end = arriving()
    committed = followed(end)
    since = np.maximum(0.0, TIMES + 600)
    return Group(name, end, np.where(TIMES > -600, committed - 60_000 + 2 * RATE * since, committed))


def two_readers(name: str) -> Group:
    """Two processes that assign their partitions themselves commit for one group, one of them half an hour behind."""
    end = arriving()
    return Group(name, end, followed(end) - np.where(np.arange(len(TIMES)) // 2 % 2, 1800 * RATE, 0.0))


def above(name: str) -> Group:
    """The topic was made anew, and the commit is from before."""
    end = arriving()
    committed = followed(end)
    anew = TIMES > -600
    return Group(name, np.where(anew, RATE * (TIMES + 600), end), np.where(anew, committed[~anew][-1], committed))


def again(name: str) -> Group:
    """Some seconds of work are done twice after a hand-over."""
    end = arriving()
    committed = followed(end)
    committed[np.flatnonzero(TIMES >= -600)[0]] -= 40 * RATE
    return Group(name, end, committed)


def repeated(name: str) -> Group:
    """The exporter has repeated its last values for seven minutes; the handlers go on."""
    end = arriving()
    held = np.where(TIMES > -420, end[TIMES <= -420][-1], end)
    return Group(name, held, held - RATE, done=followed(end))


def quiet_end(name: str) -> Group:
    """Forty records lie between the commit and the end, as long as the data show; nothing arrives."""
    end = np.full(len(TIMES), 1e6)
    return Group(name, end, end - 40)


def rare() -> Line:
    """A record every 200 s."""
    return 9_000 + np.floor((TIMES + 4500) / 200)


def last_offset(name: str) -> Group:
    """Each commit is the offset of the last record, not of the next one; a record comes every 200 s."""
    return Group(name, rare(), rare() - 1)


def last_offset_soon(name: str) -> Group:
    """The same, where the next record comes within a minute: none waits too long, whatever it is."""
    end = 9_000 + np.floor((TIMES + 4500) / 60)
    return Group(name, end, end - 1)


def last_offset_until(name: str) -> Group:
    """The same, until nothing is read any more twelve minutes ago."""
    return Group(name, rare(), np.where(TIMES > -720, rare()[TIMES <= -720][-1], rare()) - 1)


MADE: dict[str, tuple[Callable[[str], Group], Verdict]] = {
    "retention passed a commit that stood still": (lost, Verdict.RECORDS_LOST),
    "a log start that follows the commits": (follows, Verdict.HEALTHY),
    "a backlog that was read, however fast": (read_fast, Verdict.RECOVERED),
    "a backlog that its handlers have not seen": (skipped, Verdict.RECORDS_LOST),
    "offsets that no record may have, passed in no time": (no_records, Verdict.CANNOT_TELL),
    "offsets that only their exporter repeats": (repeated, Verdict.UNUSABLE_DATA),
    "an old end of a log: blocked, or aborted": (quiet_end, Verdict.CANNOT_TELL),
    "commits of the last record": (last_offset, Verdict.CANNOT_TELL),
    "commits of the last record, and the next one comes soon": (last_offset_soon, Verdict.HEALTHY),
    "commits of the last record, until they stand": (last_offset_until, Verdict.STUCK_PARTITION),
    "commits went back": (back, Verdict.OFFSETS_RESET),
    "commits of two readers under one name": (two_readers, Verdict.UNUSABLE_DATA),
    "a commit above the end": (above, Verdict.OFFSETS_RESET),
    "a hand-over does some work twice": (again, Verdict.HEALTHY),
}


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    groups = [
        edge.make(f"{name}/{side}", getattr(edge, side)) for name, edge in EDGES.items() for side in ("under", "over")
    ]
    groups += [make(name) for name, (make, _) in MADE.items()]
    return rows_of(spark, concat(it.samples() for it in groups), thresholds=Thresholds(), window=WINDOW)


@pytest.mark.parametrize("name", EDGES)
def test_both_sides(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """Just over it the verdict is this one, just under it another."""
    under, over = rows[f"{name}/under"], rows[f"{name}/over"]
    assert over.verdict is EDGES[name].verdict, over
    assert under.verdict is not EDGES[name].verdict, under


@pytest.mark.parametrize("name", MADE)
def test_what_happened_to_the_offsets(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """Losses and resets are named, and what only looks like them is not."""
    assert rows[name].verdict is MADE[name][1], rows[name]


def test_a_word_that_nobody_knows_is_no_success(spark: Any) -> None:
    """A handler that drops what fails keeps up: more of its own word than before is no all-clear, and as much as ever is no news."""
    ever = failing("ever", 0.0)
    started, few = replace(failing("started", 0.3), word="dropped"), replace(failing("few", 0.01), word="dropped")
    ever = replace(ever, failed=np.floor(0.3 * (ever.committed - ever.committed[0])), word="dropped")
    alike = replace(failing("alike", 0.0), word="value")
    table = concat(it.samples() for it in (started, few, ever, alike))
    rows = rows_of(spark, table, window=WINDOW)
    assert {name: str(it.verdict) for name, it in rows.items()} == {
        "started": "cannot_tell", "few": "healthy", "ever": "healthy", "alike": "healthy",
    }  # fmt: skip
    assert rows["started"].reasons["failing"] == "own_words"
    assert (rows["alike"].failing_share, rows["few"].failing_share) == (None, 0.0)
    assert "nobody counts how attempts end" in str(
        build_finding(rows["alike"], profiles=[load_profile("runtime")]).to_json()
    )
    assert "30 % end with a word that is no outcome" in str(
        build_finding(rows["started"], profiles=[load_profile("runtime")]).to_json()
    )


def test_a_commit_of_the_last_record_is_told_from_a_record_that_waits(rows: dict[str, SubscriptionFeatures]) -> None:
    """Nobody is sent to look for slow handlers where one look at that record decides; where more waits, it is late."""
    short = rows["commits of the last record"]
    assert short.reasons["lagging"] == "short"
    assert short.late is False
    headline = build_finding(short, profiles=[load_profile("runtime")]).headline
    assert headline.startswith(
        "Cannot tell whether anything waits: each commit of partition 0 rests one record before the end"
    )
    stands = rows["commits of the last record, until they stand"]
    assert stands.short_partitions == ()
    assert stands.late is True


def test_the_lost_are_counted(rows: dict[str, SubscriptionFeatures]) -> None:
    """From the commit to where the log begins."""
    row = rows["retention passed a commit that stood still"]
    assert row.lost_messages == pytest.approx(1200 * RATE + RATE, abs=2 * 30 * RATE)
