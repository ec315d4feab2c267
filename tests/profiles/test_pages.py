"""Each profile reads its exporter's page: every rule finds its series, values come in the right unit, and nothing is counted twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.running import run_here
from tests.profiles.pages import EXPECTED, PAGES
from workbench.collect.librdkafka_statistics import statistics_samples
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.collect.scrape import Page, page_series
from workbench.collect.source_join import groups_of_clients, with_derived_lag, with_groups
from workbench.collect.whole_from_parts_or_rates import Wholes
from workbench.errors import SourceUnreachableError
from workbench.profiles import ESTIMATE, LeftOut, Profile, Quality, load_profile, profile_names
from workbench.profiles.profile_fit import asked_for, coverage, fitting, recommended, what_to_add
from workbench.samples import GROUPS_SCHEMA, SampleBatch, SeriesTable, most_trusted
from workbench.signals import SIGNALS

NOT_PAGES = {"runtime", "librdkafka"}  # the runtime's own page is tested with it; librdkafka's is JSON, below


def series(name: str, text: str | None = None) -> SeriesTable:
    """The series of a page through its profile."""
    page = Page(url="http://page", taken_at=1000.0, text=PAGES[name] if text is None else text)
    profile = load_profile(name)
    [found] = page_series(page, [profile], cluster="c")
    return Wholes(profile).of(found)


def read(name: str) -> pa.Table:
    """Their samples."""
    return series(name).to_samples()


def examples(*names: str) -> dict[str, dict[str, str]]:
    """What a Prometheus that scrapes these pages would show."""
    text = "".join(PAGES[name] for name in names)
    found = {s.name: dict(s.labels) for family in text_string_to_metric_families(text) for s in family.samples}
    read = asked_for([load_profile(it) for it in profile_names()], found)
    return {name: {**found[metric], **carried} for metric, (name, carried) in read.items()} | {
        metric: labels for metric, labels in found.items() if metric not in read
    }


def test_every_profile_has_a_page() -> None:
    """None is shipped untested."""
    assert set(PAGES) == set(EXPECTED) == set(profile_names()) - NOT_PAGES


@pytest.mark.parametrize("name", PAGES)
def test_every_rule_of_a_profile_finds_its_series(name: str) -> None:
    """A signal that is promised is there."""
    assert set(read(name)["signal"].to_pylist()) == set(load_profile(name).signals)


@pytest.mark.parametrize("name", PAGES)
def test_values_labels_and_units(name: str) -> None:
    """The signal's unit, the canonical labels, and no value where the exporter has none."""
    rows = read(name).to_pylist()
    for signal, labels, value in EXPECTED[name]:
        wanted = [
            row
            for row in rows
            if row["signal"] == signal
            and all(row[k] == v for k, v in labels.items())
            and row["stat"] not in ("count", "bucket")
        ]
        if signal == "group_state":
            wanted = [row for row in wanted if row["value"] is not None]
        assert len(wanted) == 1, (signal, wanted)
        assert wanted[0]["value"] == (None if value is None else pytest.approx(value))
        assert value is not None or wanted[0]["flag"] in ("nan", "sentinel")


def test_the_jmx_collision_is_not_counted_twice() -> None:
    """records-lag-max comes under the name of records-lag; only the label _objectname tells them apart."""
    lags = [row["value"] for row in read("jmx_exporter").to_pylist() if row["signal"] == "consumer_lag"]
    assert lags == [120.0]


def test_an_estimated_time_lag_is_marked_as_one() -> None:
    """What an exporter interpolates is not what a consumer read off the record."""
    for name in ("kafka_exporter_fork", "kafka_lag_exporter", "decaton", "arroyo"):
        stats = {row["stat"] for row in read(name).to_pylist() if row["signal"] == "time_lag"}
        assert stats == {ESTIMATE}, name
    assert {row["stat"] for row in read("klag_exporter").to_pylist() if row["signal"] == "time_lag"} == {"value"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_recognised(name: str) -> None:
    """The profile that fits best is its own (or one that reads the very same page)."""
    twins = {"kafka_lag_exporter": "klag_exporter", "jmx_exporter_plain": "strimzi_reporter"}
    best = fitting([load_profile(it) for it in profile_names()], examples(name))[0].profile.name
    assert best in {name, twins.get(name, name), {v: k for k, v in twins.items()}.get(name, name)}


def test_several_profiles_feed_one_cluster() -> None:
    """Lag from one exporter, process times from another: recommended together, and every signal says who gives it."""
    fits = fitting([load_profile(it) for it in profile_names()], examples("kafka_exporter", "otel_messaging"))
    chosen = recommended(fits)
    assert {"kafka_exporter", "otel_messaging"} <= {it.profile.name for it in chosen}
    covered = coverage(chosen)
    assert covered["consumer_lag"] == (Quality.EXACT, "kafka_exporter")
    assert covered["process_time"] == (Quality.EXACT, "otel_messaging")
    assert covered["deserialized"][0] is Quality.PROXY
    assert covered["queue_length"] == (Quality.ABSENT, None)
    assert set(covered) == set(SIGNALS)


def test_who_sees_the_group_from_outside_comes_first() -> None:
    """A client that dies takes its own metrics with it; an exporter beside it does not."""
    fits = fitting([load_profile(it) for it in profile_names()], examples("burrow", "micrometer"))
    assert [it.profile.name for it in recommended(fits)] == ["burrow", "micrometer"]


def test_agents_and_breakers_are_named_by_hand() -> None:
    """They may send elsewhere: what waits in them need not be before this Kafka."""
    fits = fitting([load_profile(it) for it in profile_names()], examples("kafka_exporter", "vector", "resilience4j"))
    assert {"vector", "resilience4j"} < {it.profile.name for it in fits}
    assert [it.profile.name for it in recommended(fits)] == ["kafka_exporter"]


def test_what_to_add_names_who_gives_it() -> None:
    """And says so where nobody does."""
    profiles = [load_profile(it) for it in profile_names()]
    assert "wb_process_time_seconds" in what_to_add("process_time", profiles)
    assert "no known exporter" in what_to_add("fetch_latency", profiles)
    assert "Workbench asks Kafka itself" in what_to_add("reassigning_partitions", profiles)  # rebalance_storm shows it
    assert what_to_add("remote_reader_idle", profiles) == "the profile jmx_kafka_broker has it"
    own = load_profile("runtime").signals
    for signal in SIGNALS:
        assert ("runtime exports it" in what_to_add(signal, profiles)) <= (signal in own), signal


def test_nothing_fits_nothing() -> None:
    """A Prometheus without consumers."""
    assert fitting([load_profile(it) for it in profile_names()], {"up": {"job": "node"}}) == []


def views(*pairs: tuple[str, str | None]) -> pa.Table:
    """A member list of (group, client id)."""
    rows = [{"ts": 0, "cluster": "c", "group": group, "client_id": client} for group, client in pairs]
    return pa.Table.from_pylist(rows, schema=GROUPS_SCHEMA)


def test_clients_are_joined_to_their_groups() -> None:
    """By Kafka's member list; an id that two groups use says nothing, and what belongs to nobody known is left out."""
    members = groups_of_clients(
        views(("pay", "pay-0"), ("pay", "pay-0"), ("a", "consumer-1"), ("b", "consumer-1"), ("empty", None))
    )
    assert members == {"pay-0": "pay"}
    profile = load_profile("micrometer")
    joined = with_groups(series("micrometer"), profile, members)
    assert set(joined.names["group"].to_pylist()) == {"pay"}
    assert with_groups(series("micrometer"), profile, {}).to_samples().num_rows == 0
    assert with_groups(series("micrometer"), profile, members, groups=["other"]).to_samples().num_rows == 0
    assert (
        with_groups(series("decaton"), load_profile("decaton"), {"pay-app": "pay"}).to_samples().num_rows
        == read("decaton").num_rows
    )


def test_the_first_profile_that_has_a_signal_gives_it_after_the_join() -> None:
    """A lag from Kafka's side and one from the client's side are not mixed into one series."""
    members = {"pay-0": "pay"}
    client = with_groups(series("micrometer"), load_profile("micrometer"), members)
    both = most_trusted([series("kafka_exporter"), client]).to_samples()
    lag = both.filter(pc.equal(both["signal"], "consumer_lag"))
    assert set(lag["source"].to_pylist()) == {"kafka_exporter"}
    assert "micrometer" in both["source"].to_pylist()


def test_both_generations_of_the_messaging_conventions_are_never_added_up() -> None:
    """A client may export both; the profile that is named first gives the signal."""
    both = most_trusted([series("otel_messaging"), series("otel_messaging_old")]).to_samples().to_pylist()
    assert {row["source"] for row in both} == {"otel_messaging"}
    assert [row["value"] for row in both if row["signal"] == "deserialized"] == [50.0]


SUMS = """
kafka_consumergroup_lag_sum{consumergroup="pay",topic="orders"} 119
kafka_consumergroup_current_offset_sum{consumergroup="pay",topic="orders"} 880
kminion_kafka_consumer_group_topic_lag{group_id="refund",topic_name="orders"} 7
kminion_kafka_topic_high_water_mark_sum{topic_name="orders"} 999
"""
RATIO = """
kafka_consumer_group_lag_ratio{group="pay",topic="orders",partition="3"} 120
kafka_consumer_group_lag_sum_ratio{group="pay",topic="orders"} 120
kafka_consumer_group_offset_ratio{group="pay",topic="orders",partition="3"} 880
kafka_partition_current_offset_ratio{topic="orders",partition="3"} 1000
kafka_consumer_group_members{group="pay"} 2
"""


@pytest.mark.parametrize(
    ("profile", "page", "found"),
    [
        ("kafka_exporter", SUMS, {("consumer_lag", 0): 119.0, ("committed_offset", 0): 880.0}),
        ("kminion", SUMS, {("consumer_lag", 0): 7.0, ("log_end_offset", 0): 999.0}),
        (
            "otel_kafkametrics",
            RATIO,
            {("consumer_lag", 3): 120.0, ("committed_offset", 3): 880.0, ("log_end_offset", 3): 1000.0, ("group_members", None): 2.0},
        ),
    ],
)  # fmt: skip
def test_a_profile_knows_what_else_its_exporter_is_called(profile: str, page: str, found: Any) -> None:
    """Sums, where the series by partition are not kept; the names that OTLP gives. Never a sum beside its parts."""
    rows = series(profile, page).to_samples().to_pylist()
    assert {(row["signal"], row["partition"]): row["value"] for row in rows} == found
    both = series(profile, page + PAGES[profile]).to_samples().to_pylist()
    lag = [
        row for row in both if row["signal"] == "consumer_lag" and row["group"] == "pay" and row["value"] is not None
    ]
    assert [(row["partition"], row["value"]) for row in lag] == [(3, 120.0)]


def test_a_topic_as_a_whole_is_said() -> None:
    """Not in silence: a stuck partition cannot be seen in a sum."""
    left_out = LeftOut()
    profile = load_profile("msk")
    labels = {"name": "SumOffsetLag", "groupId": "pay", "topic": "orders"}
    assert profile.meaning("kafka_consumer_group_ConsumerLagMetrics_Value", labels, left_out=left_out) is not None
    assert "a topic as a whole, shown as partition 0" in left_out.notes()[0]
    assert left_out.words() == []


def test_a_time_to_drain_is_no_age() -> None:
    """MSK's estimated time lag is not read, nor its maximum as a second lag."""
    assert [(row["signal"], row["value"]) for row in read("msk").to_pylist()] == [("consumer_lag", 120.0)]


@pytest.mark.parametrize("name", ["redpanda", "faust"])
def test_a_lag_is_derived_where_only_the_offsets_are_exported(name: str) -> None:
    """Log end minus commit; and never where a lag is exported already."""
    table = with_groups(series(name), load_profile(name), {"pay-app": "pay"})
    derived = with_derived_lag(table)
    [row] = [row for row in derived.to_samples().to_pylist() if row["signal"] == "consumer_lag"]
    assert (row["group"], row["topic"], row["partition"], row["value"], row["source"]) == (
        "pay",
        "orders",
        3,
        120.0,
        "derived",
    )
    assert len(with_derived_lag(series("kafka_exporter"))) == len(series("kafka_exporter"))


def test_a_derived_lag_uses_the_end_that_was_known_at_the_time() -> None:
    """Series that are scraped at different times, against a naive oracle."""
    batch = SampleBatch("c", "x")
    ends = {5: 100.0, 15: 200.0, 25: 300.0}
    commits = {0: 10.0, 6: 60.0, 14: 150.0, 16: 250.0, 40: 280.0}
    batch.add("log_end_offset", {"topic": "t", "partition": 0}, [t * 10**6 for t in ends], list(ends.values()))
    batch.add(
        "committed_offset",
        {"group": "g", "topic": "t", "partition": 0},
        [t * 10**6 for t in commits],
        list(commits.values()),
    )
    found = [
        row for row in with_derived_lag(batch.to_series()).to_samples().to_pylist() if row["signal"] == "consumer_lag"
    ]
    oracle = []
    for at, committed in commits.items():
        known = [end for time, end in ends.items() if time <= at]
        if known:
            oracle.append(max(0.0, known[-1] - committed))
    assert [row["value"] for row in found] == oracle


def test_no_lag_is_derived_from_an_end_that_is_measured_no_more() -> None:
    """The broker's metrics end after five minutes, and the commits go on: its last end is no end of theirs."""
    batch = SampleBatch("c", "x")
    times = [at * 10**6 for at in range(0, 3600, 15)]
    batch.add("log_end_offset", {"topic": "t", "partition": 0}, times[:20], [1000.0 + at for at in range(20)])
    batch.add("committed_offset", {"group": "g", "topic": "t", "partition": 0}, times, list(range(len(times))))
    found = with_derived_lag(batch.to_series()).to_samples().to_pylist()
    lags = [row["ts"].timestamp() for row in found if row["signal"] == "consumer_lag"]
    assert max(lags) <= 19 * 15 + 40
    assert len(lags) >= 20


STATISTICS: dict[str, Any] = {
    "time": 1700000000,
    "client_id": "pay-0",
    "brokers": {
        "a:9092/1": {"nodeid": 1, "rtt": {"avg": 12000, "cnt": 3}, "throttle": {"avg": 20, "cnt": 1}},
        "bootstrap": {"nodeid": -1, "rtt": {"avg": 99, "cnt": 1}},
    },
    "topics": {
        "orders": {
            "topic": "orders",
            "partitions": {
                "3": {
                    "desired": True,
                    "consumer_lag": 0,
                    "ls_offset": 880,
                    "app_offset": 990,
                    "committed_offset": 880,
                    "hi_offset": 1000,
                    "lo_offset": 10,
                    "fetchq_cnt": 7,
                },
                "4": {
                    "desired": True,
                    "consumer_lag": -1,
                    "app_offset": -1001,
                    "committed_offset": -1001,
                    "hi_offset": 5,
                    "lo_offset": 0,
                    "fetchq_cnt": 0,
                },
                "-1": {"desired": True, "consumer_lag": -1},
                "5": {"desired": False, "consumer_lag": 55},
            },
        }
    },
    "cgrp": {"rebalance_cnt": 4, "state": "up"},
}


def test_librdkafkas_statistics_are_read() -> None:
    """Times of the document itself, units, sentinels; not the client's own partition, nor those of others."""
    table = statistics_samples(
        [json.dumps(STATISTICS), "", json.dumps({**STATISTICS, "time": 1700000001})], cluster="c"
    )
    rows = [row for row in table.to_pylist() if row["ts"].timestamp() == 1700000000]
    value = {(row["signal"], row["partition"]): row["value"] for row in rows}
    # By the two offsets: its own lag ends where the oldest open transaction begins.
    assert value["consumer_lag", 3] == 120.0
    assert ("consumer_lag", 4) not in value
    assert value["committed_offset", 4] is None
    # What the application has: where its commits stand, it reads, and they do not arrive.
    assert value["given_offset", 3] == 990.0
    assert value["given_offset", 4] is None
    assert ("consumer_lag", 5) not in value
    assert ("consumer_lag", -1) not in value
    assert value["fetch_queue_length", 3] == 7.0
    assert value["broker_rtt", None] == pytest.approx(0.012)
    assert value["throttle_time", None] == pytest.approx(0.02)
    assert value["rebalances", None] == 4.0
    read = {*load_profile("librdkafka").signals, "consumer_lag"} - {"last_stable_offset"}
    assert set(table["signal"].to_pylist()) == read
    assert len({row["ts"] for row in table.to_pylist()}) == 2


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"time": "x", "client_id": "c"}',
        '{"time": 1, "client_id": "c", "topics": 3}',
        '{"time": 1e300, "client_id": "c"}',
        '{"time": Infinity, "client_id": "c"}',
        "[" * 100_000,
    ],
)
def test_what_is_no_statistics_is_an_error_with_its_line(line: str) -> None:
    """And no traceback."""
    with pytest.raises(SourceUnreachableError, match=r"Line 1|No librdkafka statistics"):
        statistics_samples([line], cluster="c")


def _with_end(time: int, end: int, stable: int) -> dict[str, Any]:
    part = {
        "desired": True,
        "committed_offset": 100,
        "hi_offset": end,
        "lo_offset": 0,
        "ls_offset": stable,
        "fetchq_cnt": 0,
    }
    return {**STATISTICS, "time": time, "topics": {"t": {"topic": "t", "partitions": {"3": part}}}}


def test_the_last_stable_offset_counts_where_the_client_has_fetched() -> None:
    """A paused or stalled client shows that of its last fetch, as it does the log's end."""
    shown = [_with_end(1700000000, 500, 480), _with_end(1700000005, 600, 480), _with_end(1700000010, 600, 480)]
    rows = statistics_samples(map(json.dumps, shown), cluster="c").to_pylist()
    stable = [(it["ts"].timestamp(), it["value"]) for it in rows if it["signal"] == "last_stable_offset"]
    assert stable == [(1700000005, 480.0)]


def test_two_consumers_of_a_process_are_two_members() -> None:
    """Both have librdkafka's default client id, and write to one log: mixed, their counts of rebalances would rise and fall."""
    handles = [
        {"client_id": "rdkafka", "name": f"rdkafka#consumer-{number}", "cgrp": {"rebalance_cnt": 10 * number}}
        for number in (1, 2)
    ]
    lines = [json.dumps({**STATISTICS, **it, "time": time}) for time in (1700000000, 1700000005) for it in handles]
    told: dict[str, set[float]] = {}
    for row in statistics_samples(lines, cluster="c", group="g").to_pylist():
        if row["signal"] == "rebalances":
            told.setdefault(row["member"], set()).add(row["value"])
    assert told == {"rdkafka": {10.0}, "rdkafka (rdkafka#consumer-2)": {20.0}}


def test_statistics_are_read_as_people_keep_them() -> None:
    """On a line, indented, behind a log's prefix or among its other lines, cut at the end, and from before clients had an id."""
    plain = json.dumps(STATISTICS)
    wanted = statistics_samples([plain], cluster="c").to_pylist()
    indented = [f"{line}\n" for line in json.dumps(STATISTICS, indent=2).split("\n")]
    assert statistics_samples(indented, cluster="c").to_pylist() == wanted
    logged = ["12:00:01 INFO started {ok}\n", f"12:00:02 INFO %7|1.2|STATS|c| {plain}\n", "12:00:03 WARN slow\n"]
    assert statistics_samples(logged, cluster="c").to_pylist() == wanted
    other = [
        json.dumps(it)
        for it in ({"level": "info", "msg": "started"}, {"time": "2026-11-21T03:00:00Z", "topics": ["t"]})
    ]
    assert statistics_samples([other[0], plain, other[1]], cluster="c").to_pylist() == wanted
    cut = plain[: plain.index('"topics"') + 40]  # the log is being written
    assert statistics_samples([plain, cut], cluster="c").to_pylist() == wanted
    with pytest.raises(SourceUnreachableError, match="Line 1"):
        statistics_samples([cut, plain], cluster="c")
    old = {**{key: value for key, value in STATISTICS.items() if key != "client_id"}, "name": STATISTICS["client_id"]}
    assert statistics_samples([json.dumps(old)], cluster="c").to_pylist() == wanted


@pytest.mark.parametrize(
    "odd", ["²", "١", "99999999999", "2147483648", "x; DROP", "-1", " 1", "1\n", "", "1e3", "9" * 5000, "\ud800"]
)
def test_a_partition_that_is_none_is_left_out_and_counted(odd: str) -> None:
    """Hostile labels make no sample and no crash; the largest number of Kafka's is one."""
    profile: Profile = load_profile("kminion")
    lag = "kminion_kafka_consumer_group_topic_partition_lag"
    labels = {"group_id": "g", "topic_name": "t"}
    left_out = LeftOut()
    assert profile.meaning(lag, {**labels, "partition_id": odd}, left_out=left_out) is None
    assert profile.meaning(lag, {**labels, "partition_id": odd}) is None
    [words] = left_out.words()
    assert "1 series of" in words and "partition_id" in words
    assert words.isascii() and words.isprintable() and len(words) < 500
    found = profile.meaning(lag, {**labels, "partition_id": "2147483647"}, left_out=left_out)
    assert found is not None and found.labels["partition"] == 2**31 - 1


def test_other_labels_that_cannot_be_read_are_left_out_and_counted() -> None:
    """States that are none, bounds that are none, text that is none; what a profile does not know is nobody's loss."""
    left_out = LeftOut()
    kminion, runtime = load_profile("kminion"), load_profile("runtime")
    for state in ("<script>", "<b>"):
        labels = {"group_id": "g", "state": state}
        assert kminion.meaning("kminion_kafka_consumer_group_info", labels, left_out=left_out) is None
    for bound in ({}, {"le": "nan"}, {"le": "x"}):
        labels = {"group": "g", "topic": "t", "member": "m", "processor": "p", **bound}
        assert runtime.meaning("wb_process_time_seconds_bucket", labels, left_out=left_out) is None
    labels = {"group": "\ud800", "topic": "t", "partition": "0", "member": "m"}
    assert runtime.meaning("wb_consumer_lag_messages", labels, left_out=left_out) is None
    assert runtime.meaning("node_load1", {"group": "\ud800"}, left_out=left_out) is None
    assert [words.split()[0] for words in left_out.words()] == ["2", "3", "1"]
    assert "'<script>'" in left_out.words()[0]


def test_the_start_of_a_process_is_no_sign_of_a_broker() -> None:
    """A consumer's agent tells its own under the name that those of brokers have."""
    there = examples("kafka_exporter", "jmx_exporter_plain") | {
        "process_start_time_seconds": {"instance": "a:9404", "pod": "pay-0"}
    }
    fits = fitting([load_profile(name) for name in profile_names()], there)
    assert not [it.profile.name for it in fits if "broker" in it.profile.name or it.profile.name == "spring_listener"]
    assert [it.profile.name for it in recommended(fits)] == ["kafka_exporter", "jmx_exporter_plain"]


@pytest.mark.parametrize(
    ("pages", "of_brokers", "of_dispatchers"),
    [
        (("kafka_exporter",), False, False),
        (("kafka_exporter", "jmx_broker_strimzi"), True, False),
        (("pulsar_broker",), False, True),
    ],
)
def test_a_check_names_no_signal_of_servers_where_none_tells_any(
    pages: tuple[str, ...], of_brokers: bool, of_dispatchers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lag exporter lacks nothing of a broker's or of another queue's; what it could have is listed."""
    there = examples(*pages)
    monkeypatch.setattr(PrometheusSource, "names", lambda *_args, **_more: frozenset(there))
    monkeypatch.setattr(PrometheusSource, "examples", lambda *_args, **_more: there)
    shown = run_here("profiles", "check", "--url", "http://127.0.0.1:9", cwd=tmp_path).stdout
    listed = {line.split()[0] for line in shown.splitlines() if line.startswith(" ") and line.split()[0] in SIGNALS}
    assert {"consumer_lag", "process_time", "assigned"} <= listed
    assert ("isr_shrinks" in listed) == of_brokers
    assert ("bookie_writes" in listed) == of_dispatchers
    assert ("No broker tells of itself here" in shown) != of_brokers
    # A lag exporter fits, and the metrics of a team's own consumers may be there all the same.
    assert "draft a profile: workbench profiles new --url http://127.0.0.1:9" in " ".join(shown.split())
