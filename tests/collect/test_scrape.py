"""Rules of the scraper: a page is read by its profiles, and a dead target is evidence that stops nobody."""

from __future__ import annotations

import tracemalloc
from functools import partial

import pytest
from prometheus_client.samples import Sample

from tests.servers import Script, scripted
from workbench.collect.processes_of_one_name import ProcessNames
from workbench.collect.scrape import Page, fetch, page_series, scrape
from workbench.collect.scraped_timestamps import OwnTimes
from workbench.errors import SourceUnreachableError
from workbench.profiles import load_profile

PAGE = b"""\
# TYPE wb_consumer_lag_messages gauge
wb_consumer_lag_messages{group="g",topic="t",partition="0",member="m"} 7.0
wb_consumer_lag_messages{group="a\\"b\\nc",topic="<img>",partition="1",member="m"} NaN
# TYPE wb_process_time_seconds histogram
wb_process_time_seconds_bucket{group="g",topic="t",member="m",processor="p",le="+Inf"} 3.0
wb_process_time_seconds_sum{group="g",topic="t",member="m",processor="p"} 0.6
wb_process_time_seconds_count{group="g",topic="t",member="m",processor="p"} 3.0
# TYPE wb_processed counter
wb_processed_total{group="g",topic="t",member="m",processor="p",outcome="retry"} 2.0
something_else 1.0
"""


def test_a_page_is_read_by_its_profile() -> None:
    """Gauges, histograms and outcomes; hostile label values stay what they are; NaN becomes null with a flag."""
    with scripted(Script(body=PAGE)) as server:
        table, missing = scrape([server.url + "/metrics"], [load_profile("runtime")], cluster="c", timeout_seconds=5)
    assert missing == []
    rows = {(row["signal"], row["stat"], row["group"]): row for row in table.to_samples().to_pylist()}
    assert rows["consumer_lag", "value", "g"]["value"] == 7.0
    assert rows["consumer_lag", "value", 'a"b\nc']["flag"] == "nan"
    assert rows["consumer_lag", "value", 'a"b\nc']["topic"] == "<img>"
    assert rows["process_time", "sum", "g"]["value"] == 0.6
    assert rows["processed", "retry", "g"]["value"] == 2.0
    assert not any(row["signal"] == "something_else" for row in table.to_samples().to_pylist())


def test_dead_and_hanging_targets_are_told_and_do_not_stop_the_others() -> None:
    """A consumer that died took its page with it: that is a fact about it, not a failure of ours."""
    with scripted(Script(body=PAGE)) as good, scripted(Script(body=PAGE, delay_seconds=6)) as slow:
        urls = [good.url, "http://127.0.0.1:9/metrics", slow.url]
        table, missing = scrape(urls, [load_profile("runtime")], cluster="c", timeout_seconds=2)
    assert len(table) > 0
    assert len(missing) == 2
    assert any("127.0.0.1:9" in text for text in missing)


def test_what_is_no_metrics_page_is_refused() -> None:
    """With the host named, and a hint."""
    page = Page(url="http://127.0.0.1:1/x", taken_at=1.0, text="<html><body>hello {</body></html>")
    with pytest.raises(SourceUnreachableError, match="not a metrics page"):
        page_series(page, [load_profile("runtime")], cluster="c")


GARBAGE = (
    b"<html><body>hello {</body></html>",
    b'a{b="c} 1\n',
    b"x{",
    b'wb_consumer_lag_messages{group="g"} seven\n',
    b"\xff\xfe{",
)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_page_that_is_none_is_named_and_does_not_stop_the_others(garbage: bytes) -> None:
    """Somebody else's server at an address is no reason to record nothing."""
    with scripted(Script(body=PAGE)) as good, scripted(Script(body=garbage)) as bad:
        urls = [bad.url + "/metrics", good.url + "/metrics"]
        series, missing = scrape(urls, [load_profile("runtime")], cluster="c", timeout_seconds=5)
    assert len(series)
    assert len(missing) == 1
    assert "not a metrics page" in missing[0] and bad.url.removeprefix("http://") in missing[0]


def test_an_odd_label_of_a_page_leaves_one_series_out() -> None:
    """And says so."""
    odd = 'wb_consumer_lag_messages{group="g",topic="t",partition="²",member="m"} 7.0\n'.encode()
    with scripted(Script(body=odd + PAGE)) as server:
        series, missing = scrape([server.url], [load_profile("runtime")], cluster="c", timeout_seconds=5)
    assert len(series) == 6
    assert len(missing) == 1 and "partition" in missing[0]


def rounds(monkeypatch: pytest.MonkeyPatch, pages: dict[str, str], *, number: int = 3) -> dict[str, set[float]]:
    """What some rounds tell of rebalances, by member; all clients are of one group."""
    texts = [Page(url=f"http://{host}:9404/metrics", taken_at=NOW, text=text) for host, text in pages.items()]
    monkeypatch.setattr("workbench.collect.scrape.fetch_all", lambda *_, **__: texts)
    profile, processes, found = load_profile("jmx_exporter_plain"), ProcessNames(), dict[str, set[float]]()
    for _ in range(number):
        series, missing = scrape(
            list(pages),
            [profile],
            cluster="c",
            timeout_seconds=1,
            members={"consumer-g-1": "g", "other": "g"},
            processes=processes,
        )
        assert missing == []
        for row in series.to_samples().to_pylist():
            assert row["group"] == "g"
            found.setdefault(row["member"], set()).add(row["value"])
    return found


def rebalanced(client: str, times: int, place: str = "") -> str:
    """What a consumer in Java tells of itself."""
    name = "kafka_consumer_consumer_coordinator_metrics_rebalance_total"
    return f'{name}{{client_id="{client}"{place}}} {times}\n'


def test_two_processes_with_one_client_id_are_two_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Java's default one is the same in each: mixed, their counters would begin anew at each look, as in a storm of rebalances."""
    pages = {
        "a": rebalanced("consumer-g-1", 3),
        "b": rebalanced("consumer-g-1", 5) + rebalanced("other", 2),
        "prometheus": rebalanced("consumer-g-1", 7, ',pod="c"') + rebalanced("consumer-g-1", 9, ',pod="d"'),
    }
    assert rounds(monkeypatch, pages) == {
        "consumer-g-1": {3.0},
        "consumer-g-1 (b:9404)": {5.0},
        "consumer-g-1 (c)": {7.0},
        "consumer-g-1 (d)": {9.0},
        "other": {2.0},
    }


LAG = 'wb_consumer_lag_messages{{group="{group}",topic="t",partition="0",member="m"}} {value}{at}\n'
NOW = 1_795_000_000.0


def told(text: str, *, at: float = NOW, times: OwnTimes | None = None) -> dict[str, tuple[float, float]]:
    """What a page says by group: seconds before it was taken, and the value."""
    page = Page(url="http://h:1/federate", taken_at=at, text=text)
    [series] = page_series(page, [load_profile("runtime")], cluster="c", own_times=times)
    rows = series.to_samples().to_pylist()
    return {row["group"]: (at - row["ts"].timestamp(), row["value"]) for row in rows}


def dated(group: str, seconds_ago: float | str, value: float = 7.0) -> str:
    """A series with a time of its own."""
    at = seconds_ago if isinstance(seconds_ago, str) else round((NOW - seconds_ago) * 1000)
    return LAG.format(group=group, value=value, at=f" {at}")


def test_what_labels_of_a_counter_tell_apart_are_parts_of_one() -> None:
    """As with a Prometheus: one after the other in one series, they would begin anew with each sample. A page of pages has several."""
    count = "messaging_process_duration_seconds_count"
    own = 'messaging_consumer_group_name="pay",messaging_operation_name="process"'
    lines = [
        (f'{own},messaging_destination_partition_id="0"', 30),
        (f"{own}", 12),
        (f'{own},error_type="Oops"', 2),
        (f'{own},instance="other:9464"', 7),
    ]
    text = "".join(f"{count}{{{labels}}} {value}\n" for labels, value in lines)
    page = Page(url="http://pay-0:9464/metrics", taken_at=1000.0, text=text)
    [found] = page_series(page, [load_profile("otel_messaging")], cluster="c")
    rows = found.to_samples().to_pylist()
    told = {(row["signal"], row["stat"], row["member"]): row["value"] for row in rows}
    assert len(rows) == len(told)
    assert told == {
        ("process_time", "count", "pay-0:9464"): 44.0,
        ("process_time", "count", "other:9464"): 7.0,
        ("processed", "ok", "pay-0:9464"): 42.0,
        ("processed", "failed", "pay-0:9464"): 2.0,
        ("processed", "ok", "other:9464"): 7.0,
    }


def test_a_series_with_a_time_of_its_own_is_as_old_as_it_says() -> None:
    """As on `/federate`; not as old as the answer. A clock that is a little ahead is no measurement of the future."""
    page = LAG.format(group="bare", value=1.0, at="") + dated("late", 240) + dated("ahead", -5)
    assert told(page) == {"bare": (0, 1.0), "late": (240, 7.0), "ahead": (0, 7.0)}


@pytest.mark.parametrize("at", [2 * 3600, -3600, "0", "-1", "NaN", "1e300", "Inf"])
def test_a_series_whose_time_cannot_be_is_left_out_and_told(at: float | str) -> None:
    """Of one that was measured at no time that anybody knows, nothing is known; the others stay."""
    times = OwnTimes()
    assert set(told(dated("odd", at) + dated("good", 10), times=times)) == {"good"}
    assert list(times.refused) == ["h:1: series are dated more than an hour ago, or ahead, and are left out"]


def test_a_value_that_is_told_again_is_no_new_one() -> None:
    """The exporter behind a page is gone, and the page goes on telling its last value; then it is back."""
    assert told(LAG.format(group="open", value=1.0, at=f" {NOW - 30}") + "# EOF\n") == {"open": (30, 1.0)}  # in seconds
    times = OwnTimes()
    assert told(dated("dead", 5) + dated("alive", 5), times=times).keys() == {"dead", "alive"}
    for later in (10, 20):
        assert told(dated("dead", 5) + dated("alive", 5 - later), at=NOW + later, times=times) == {"alive": (5, 7.0)}
    assert told(dated("dead", -30), at=NOW + 30, times=times) == {"dead": (0, 7.0)}


def test_what_was_told_at_last_takes_little_memory_and_is_forgotten_when_it_cannot_be_repeated() -> None:
    """A page that joins others has 100,000 series, and those of former consumers go on for days."""
    times, labels = OwnTimes(), {f"label_{n}": f"a value of some length {n}" for n in range(8)}
    of = partial(times.of, page="h", taken_at=NOW)
    tracemalloc.start()
    try:
        for number in range(2_000):
            of(Sample("lag", {**labels, "partition": str(number)}, 0.0, NOW))
        assert tracemalloc.get_traced_memory()[0] < 2_000 * 300
    finally:
        tracemalloc.stop()
    last = Sample("lag", {**labels, "partition": "0"}, 0.0, NOW)
    times.next_round(NOW + 3_600)
    assert of(last) is None
    times.next_round(NOW + 3_601)
    assert not times._last
    assert of(last, taken_at=NOW + 3_601) is None, "it is too old"


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_page_that_breaks_off_within_a_line_is_none(at: int) -> None:
    """Half of a number is another number: the whole page is missing, and named. What HTTP has counted is whole, as for Prometheus."""
    line = b'kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"} 1005\n'
    profiles = [load_profile("kafka_exporter")]
    with scripted(Script(until_closed=True)) as broken, scripted(Script(body=line)) as whole:

        def seen(page: bytes) -> tuple[int, list[str]]:
            broken.body = page
            series, missing = scrape([broken.url, whole.url], profiles, cluster="c", timeout_seconds=5)
            return len(series), missing

        other = line.replace(b'"g"', b'"other"')
        host = broken.url.removeprefix("http://")
        assert seen(other[:-at]) == (1, [f"{host}: the page breaks off within a line"])
        assert fetch(broken.url, timeout_seconds=5).text == "", "nor is any of it for those who read brokers' pages"
        for page in (other, other + b"# EOF"):  # OpenMetrics says where its end is
            assert seen(page) == (2, [])
        assert seen(b"") == (1, [])
        broken.until_closed = False
        assert seen(other[:-1]) == (2, [])
