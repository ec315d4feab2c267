"""Who slows whom where pages or lags are missing: a gap accuses nobody, clears nobody, and is not taken for the end of anything."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.triage.brokers import END, WINDOW, Made, after, at
from tests.triage.test_blame_heavy_readers import (
    BEGAN,
    LIMITS,
    SLOW,
    cluster,
    hog,
    judged,
    neighbours,
    reasons,
    strained,
)
from workbench.features.broker_features import OF_SERVERS, Neighbourhood, neighbourhood
from workbench.queues.tool_words import tools_of
from workbench.triage.blame_heavy_readers import blame
from workbench.triage.brokers import judge_brokers
from workbench.triage.verdict_names import Answer
from workbench.triage.who_holds_up_whom import Impact


def without(made: Made, signals: set[str] | None, begin: float, end: float = 1.0) -> Impact:
    """The answer if these signals (None: all of broker 1's page) are missing from one minute to another."""
    return blame(left(made, signals, begin, end), LIMITS)


def left(made: Made, signals: set[str] | None, begin: float, end: float = 1.0) -> Neighbourhood:
    """What is seen without them."""
    samples = made.samples()
    minutes = (pc.cast(samples["ts"], pa.int64()).to_numpy() / 1e6 - END.timestamp()) / 60
    names, pages = samples["signal"].to_pylist(), samples["broker"].to_pylist()
    is_meant = [
        page == "kafka-1:9404" if signals is None else name in signals for name, page in zip(names, pages, strict=True)
    ]
    is_gone = np.array(is_meant) & (minutes >= begin) & (minutes < end)
    return neighbourhood(samples.filter(pa.array(~is_gone)), made.groups(), WINDOW)


@pytest.mark.parametrize(("begin", "end", "silent"), [(-5.0, 1.0, (1,)), (-5.0, -2.0, ()), (-99.0, 1.0, ())])
def test_a_broker_that_tells_nothing_any_more_is_named(begin: float, end: float, silent: tuple[int, ...]) -> None:
    """Not one whose page has come back, nor one that never had any; and none if all pages are away: that is our own way."""
    made = cluster()
    seen = left(made, None, begin, end)
    look = judge_brokers(seen, blame(seen, LIMITS), LIMITS, tools_of("b:1"))
    assert look.silent == silent
    nothing = left(made, set(OF_SERVERS), -5.0)
    assert judge_brokers(nothing, blame(nothing, LIMITS), LIMITS, tools_of("b:1")).silent == ()


@pytest.mark.parametrize("lost", [-5.0, -2.5])
def test_a_page_that_is_lost_ends_nothing(lost: float) -> None:
    """A broker that is at its limit does not answer the scrape either."""
    made = cluster()
    hog(made, 1)
    [cause] = without(made, None, lost).causes
    assert cause.offender.name == "hog" and cause.offender.until is None
    assert cause.offender.bytes_per_second == pytest.approx(5e7)


def test_a_broker_without_a_page_clears_nobody() -> None:
    """The others have theirs; the groups wait on the one that tells nothing."""
    made = cluster()
    hog(made, 1)
    found = without(made, None, -99)
    assert found.answer is Answer.CANNOT_TELL and found.missing == ("broker_traffic of broker 1",)


def test_a_broker_that_tells_no_readers_clears_nobody() -> None:
    """An agent with rules of its own leaves out clients and topics on one broker."""
    made = cluster()
    samples = made.samples()
    is_gone = pc.and_(pc.equal(samples["signal"], "client_reads"), pc.equal(samples["broker"], "kafka-1:9404"))
    found = blame(neighbourhood(samples.filter(pc.invert(pc.fill_null(is_gone, False))), made.groups(), WINDOW), LIMITS)
    assert found.answer is Answer.CANNOT_TELL
    assert found.missing == ("client_reads or topic_reads of broker 1",)


@pytest.mark.parametrize("lost", [-10.0, -5.0])
def test_a_lag_that_nobody_tells_any_more_is_no_all_clear(lost: float) -> None:
    """The exporter has stopped, in the window or before it."""
    found = without(cluster(strain=False), {"consumer_lag", "committed_offset", "log_end_offset"}, lost)
    assert found.answer is Answer.CANNOT_TELL and "consumer_lag" in found.sentence


@pytest.mark.parametrize(("gone", "back"), [(-22.0, -6.5), (-99.0, -6.5)])
def test_who_is_busy_when_a_page_comes_back_is_not_accused(gone: float, back: float) -> None:
    """The disk of broker 1 has become slow just then; who reads a lot there has done so all the time."""
    made = Made()
    made.well(2, 3)
    made.own(1, "request_local_time", after(-6, 3, before=0.004), kind="FetchConsumer")
    for broker in (1, 2):
        neighbours(made, broker, slow=SLOW if broker == 1 else None)
    for broker in (1, 2, 3):
        made.traffic(broker, at(5.1e7))
    made.group("busy", 1, at(50_000), clients=1)
    made.reads("busy-0", 1, at(5e7))
    found = without(made, None, gone, back)
    assert not found.causes and found.answer is Answer.CANNOT_TELL
    assert reasons(found)['group "busy"'] in ("it takes no more than before", "what it took before is not known")


def test_strains_that_are_not_known_before_do_not_clear() -> None:
    """Idle and request times are there since its rise only: that they are no worse than before nobody can say."""
    made = cluster()
    hog(made, 1)
    own = {"network_idle", "response_send_time", "request_handler_idle", "request_queue_time", "request_local_time"}
    [cause] = without(made, own, -99, -5.0).causes
    assert cause.offender.name == "hog" and not cause.strains


@pytest.mark.parametrize(("begin", "is_accused"), [(-24.5, False), (-23.5, True), (-20.0, True), (-12.0, True)])
def test_a_culprit_that_began_in_the_baseline_is_not_usual(begin: float, *, is_accused: bool) -> None:
    """Its lowest level before counts, if five samples tell it; the groups have waited since then."""
    made = Made()
    made.well(2, 3)
    strained(made, 1, begin)
    neighbours(made, 1, slow=after(begin, 0.6, before=1.0))
    for broker in (2, 3):
        neighbours(made, broker, slow=None)
    for broker in (1, 2, 3):
        made.traffic(broker, at(5e7))
    hog(made, 1, begin=begin)
    found = judged(made)
    assert [it.offender.name for it in found.causes] == (["hog"] if is_accused else [])
    if is_accused:
        [cause] = found.causes
        assert cause.offender.since == pytest.approx(WINDOW.end.timestamp() + begin * 60, abs=45)
        assert {it.group for it in cause.victims} == {"g10", "g11", "g12", "g13"}


def test_a_reader_that_was_as_high_before_has_not_begun_in_the_baseline() -> None:
    """It reads in turns; that others wait since one of them is chance."""
    made = Made()
    made.well(2, 3)
    strained(made, 1, -20.0)
    neighbours(made, 1, slow=after(-20.0, 0.6, before=1.0))
    for broker in (2, 3):
        neighbours(made, broker, slow=None)
    for broker in (1, 2, 3):
        made.traffic(broker, at(5e7))
    made.group("turns", 1, at(100), clients=1)
    made.reads("turns-0", 1, lambda it: np.where((it < -23) | (it >= -20), 5e7, 1e6))
    assert not judged(made).causes


@pytest.mark.parametrize(("rest", "is_held"), [(1.0, False), (0.6, True)])
def test_a_group_whose_commits_were_set_back_waits_for_nobody(rest: float, *, is_held: bool) -> None:
    """What it is to read again is no lag that a broker makes; if it falls behind besides, it is held up."""
    made = cluster()
    hog(made, 1)
    made.group("again", 1, at(200.0), after(BEGAN, rest, before=1.0))
    samples = made.samples().to_pylist()
    cut = WINDOW.end.timestamp() + (BEGAN + 0.5) * 60
    for row in samples:
        if row["group"] == "again" and row["ts"].timestamp() > cut and row["signal"] != "log_end_offset":
            row["value"] += 60_000 if row["signal"] == "consumer_lag" else -60_000
    seen = neighbourhood(pa.Table.from_pylist(samples, schema=made.samples().schema), made.groups(), WINDOW)
    found = blame(seen, LIMITS)
    [cause] = found.causes
    assert ("again" in {it.group for it in cause.victims}) == is_held
    assert "again" not in (found.held_up or {})
    assert seen.groups["again", 1].lag[-1] > 60_000
