"""Pages of real Java consumers (Kafka 4.2) behind the real JMX agent, 0.20.0 and 1.0.1, with three sets of rules.

The recorded lines are those of the metrics that profiles read, and of their neighbours.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from workbench.collect.scrape import Page, page_series
from workbench.collect.source_join import with_groups
from workbench.collect.whole_from_parts_or_rates import Wholes
from workbench.profiles import load_profile, profile_names
from workbench.profiles.profile_fit import fitting
from workbench.samples import SeriesTable

RECORDED = Path(__file__).parent / "recorded"
# File, its profile, and what the page says: partitions, rebalances, start, mean fetch latency, sum of the lag.
PAGES = [
    ("connect_classic_agent_0_20_0", "jmx_exporter", "02468", 1, 1795345504.776, 0.013226, 614),
    ("connect_classic_agent_1_0_1", "jmx_exporter", "02468", 1, 1795345467.82, 0.013469, 0),
    ("strimzi_classic_agent_1_0_1", "jmx_exporter_strimzi", "02468", 1, 1795345486.326, 0.012236, 0),
    ("plain_classic_agent_0_20_0", "jmx_exporter_plain", "02468", 1, 1795345522.96, 0.011862, 0),
    ("plain_kip848_agent_1_0_1", "jmx_exporter_plain", "01234", 2, 1795345425.939, 0.003134, 0),
]


def text(name: str) -> str:
    """A recorded page."""
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


def joined(page: str, profile: str) -> SeriesTable:
    """Series of a page, with the group of the client."""
    known = load_profile(profile)
    [found] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [known], cluster="c")
    return with_groups(found, known, {"loyalty-0": "loyalty"})


@pytest.mark.parametrize(("name", "profile", "partitions", "rebalances", "start", "latency", "lag"), PAGES)
def test_a_real_page_is_read_in_full(
    name: str, profile: str, partitions: str, rebalances: int, start: float, latency: float, lag: int
) -> None:
    """Every rule finds the member; a topic with a dot is one subscription, and no series counts twice."""
    rows = joined(text(name), profile).to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(load_profile(profile).signals)
    assert {(row["group"], row["member"]) for row in rows} == {("loyalty", "loyalty-0")}
    assert {row["topic"] for row in rows} == {None, "payments.events"}
    lags = {row["partition"]: row["value"] for row in rows if row["signal"] == "consumer_lag"}
    assert sorted(lags) == [int(it) for it in partitions]
    assert sum(lags.values()) == lag
    assert len([row for row in rows if row["signal"] == "consumer_lag"]) == len(lags)
    single = {row["signal"]: row["value"] for row in rows if row["signal"] != "consumer_lag"}
    assert single["rebalances"] == rebalances
    assert single["start_time"] == pytest.approx(start)
    assert single["broker_rtt"] == pytest.approx(latency, rel=1e-4)
    assert len(rows) == len(lags) + len(single)


@pytest.mark.parametrize(("name", "profile"), [page[:2] for page in PAGES])
def test_a_real_page_is_recognised(name: str, profile: str) -> None:
    """Its own profile fits best, with every signal."""
    examples = {s.name: dict(s.labels) for family in text_string_to_metric_families(text(name)) for s in family.samples}
    best = fitting([load_profile(it) for it in profile_names()], examples)[0]
    assert best.profile.name == profile
    assert not best.absent


def test_a_thread_of_a_real_streams_application_is_its_consumer() -> None:
    """The restore consumer and the admin client of the same process are no members; the consumer's own idle time is another series."""
    page = text("streams_plain_agent_0_20_0")
    client = "pay-0-StreamThread-1-consumer"
    found = {}
    for name in ("kafka_streams", "jmx_exporter_plain"):
        known = load_profile(name)
        [series] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [known], cluster="c")
        rows = with_groups(series, known, {client: "pay"}).to_samples().to_pylist()
        mine = [row for row in rows if row["group"] == "pay"]
        assert {row["member"] for row in mine} == {client}
        found[name] = {(row["signal"], row["stat"]): row["value"] for row in mine}
    assert found["kafka_streams"] == {
        ("poll_idle", "value"): 0.0,
        ("start_time", "value"): pytest.approx(1795572038.562),
        ("process_time", "mean"): pytest.approx(0.005763849),
        ("process_time", "count"): 2492.0,
    }
    assert found["jmx_exporter_plain"]["poll_idle", "value"] == pytest.approx(0.18972 / (1 - 0.18972), abs=1e-5)


def test_a_task_of_a_real_sink_is_read_in_full() -> None:
    """What it has taken and not committed, not its mean or its maximum; and the time of a batch, the batch and the records."""
    known, client = load_profile("connect_sink"), "connector-consumer-pay-0-0"
    [series] = page_series(
        Page(url="http://page", taken_at=1000.0, text=text("sink_plain_agent_1_0_1")), [known], cluster="c"
    )
    rows = with_groups(series, known, {client: "connect-pay"}).to_samples().to_pylist()
    assert {(row["group"], row["member"], row["processor"]) for row in rows} == {("connect-pay", client, "0")}
    assert {(row["signal"], row["stat"]): row["value"] for row in rows} == {
        ("in_flight", "value"): 81.0,
        ("process_time", "mean"): pytest.approx(0.00772995),
        ("process_time", "batch"): pytest.approx(1.78314, abs=1e-5),
        ("process_time", "count"): 2179.0,
    }


def test_two_versions_of_an_agent_side_by_side_are_not_added_up() -> None:
    """Both names of one member: the first counts. A member that has only the other name keeps it."""
    metric = "kafka_consumer_consumer_coordinator_metrics_rebalance"
    page = (
        f'{metric}{{client_id="loyalty-0"}} 3\n{metric}_total{{client_id="loyalty-0"}} 5\n'
        f'{metric}_total{{client_id="loyalty-1"}} 7\n'
    )
    profile = load_profile("jmx_exporter_plain")
    [found] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [profile], cluster="c")
    rows = found.to_samples().to_pylist()
    assert {row["member"]: row["value"] for row in rows} == {"loyalty-0": 3.0, "loyalty-1": 7.0}
    assert len(rows) == 2


def test_a_topic_with_an_underscore_is_no_second_name() -> None:
    """Only where the same member has the topic with the dot; and only of clients that export both."""
    lag = "kafka_consumer_consumer_fetch_manager_metrics_records_lag"
    page = "".join(
        f'{lag}{{client_id="{client}",topic="{topic}",partition="0"}} 1\n'
        for client, topic in (("loyalty-0", "a.b"), ("loyalty-0", "a_b"), ("loyalty-0", "c_d"), ("loyalty-1", "a_b"))
    )
    profile = load_profile("jmx_exporter_plain")
    [found] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [profile], cluster="c")
    members = {"loyalty-0": "x", "loyalty-1": "y"}

    def topics(of: SeriesTable) -> set[tuple[str, str]]:
        return set(zip(of.names["member"].to_pylist(), of.names["topic"].to_pylist(), strict=True))

    kept = {("loyalty-0", "a.b"), ("loyalty-0", "c_d"), ("loyalty-1", "a_b")}
    assert topics(with_groups(found, profile, members)) == kept
    others = profile.model_copy(update={"topics_twice": False})
    assert topics(with_groups(found, others, members)) == kept | {("loyalty-0", "a_b")}
    assert pc.all(pc.is_valid(with_groups(found, profile, members).names["group"])).as_py()


def test_the_listener_timer_of_spring_is_one_processor() -> None:
    """Count and sum of all outcomes, of a page of a real application (Micrometer's Prometheus registry); its group is its process's."""
    [found] = page_series(
        Page(url="http://page", taken_at=1000.0, text=text("spring_micrometer")),
        [load_profile("spring_listener")],
        cluster="c",
    )
    rows = found.to_samples().to_pylist()
    times = {row["stat"]: row["value"] for row in rows if row["signal"] == "process_time"}
    assert times == {"count": 4173.0, "sum": pytest.approx(35.501776771)}
    assert {row["processor"] for row in rows if row["signal"] == "process_time"} == {"all"}
    assert {row["group"] for row in rows} == {None}


def test_a_page_of_spring_boot_has_every_signal_of_its_client() -> None:
    """Boot 4.1, as Micrometer names what Kafka's client measures; no series counts twice."""
    known = load_profile("micrometer")
    [found] = page_series(Page(url="http://page", taken_at=1000.0, text=text("spring_boot_4_1")), [known], cluster="c")
    rows = with_groups(found, known, {"loyalty-0-0": "loyalty"}).to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(known.signals)
    assert {(row["group"], row["member"]) for row in rows} == {("loyalty", "loyalty-0-0")}
    assert len(rows) == len({(row["signal"], row["partition"]) for row in rows})
    assert [row["value"] for row in rows if row["signal"] == "start_time"] == [pytest.approx(1796005668.939)]


def test_a_page_of_an_observed_listener_tells_group_topic_and_thread() -> None:
    """Boot 3.5, whose client writes the topic with underscores, and whose listener does not."""
    page = Page(url="http://page", taken_at=1000.0, text=text("spring_boot_3_5_observed"))
    timer, client = page_series(page, [load_profile("spring_listener"), load_profile("micrometer")], cluster="c")
    rows = with_groups(timer, load_profile("spring_listener"), {}).to_samples().to_pylist()
    assert {(row["group"], row["topic"], row["member"]) for row in rows} == {
        ("loyalty", "shop.payments", f"orders-{thread}") for thread in range(3)
    }
    assert {row["signal"] for row in rows} == {"process_time", "processed"}
    assert set(client.names["topic"].to_pylist()) == {None, "shop_payments"}


TIMER = "spring_kafka_listener_seconds"
HISTOGRAM = "messaging_process_duration_seconds"


@pytest.mark.parametrize(
    ("profile", "page"),
    [
        (
            "spring_listener",
            [(TIMER, 'exception="none",result="success"', 40), (TIMER, 'exception="E",result="failure"', 2)],
        ),
        ("spring_listener", [(TIMER, 'error="none"', 40), (TIMER, 'error="E"', 2)]),
        ("otel_messaging", [(HISTOGRAM, 'messaging_operation_name="process"', 40), (HISTOGRAM, 'error_type="E"', 2)]),
        ("otel_messaging", [(HISTOGRAM, 'error_type=""', 40), (HISTOGRAM, 'error_type="_OTHER"', 2)]),
    ],
)
def test_a_timer_tells_how_attempts_end_beside_how_long_they_took(
    profile: str, page: list[tuple[str, str, int]]
) -> None:
    """Its count, by the label with the outcome; the times stay those of all attempts."""
    who = 'pod="pay-0",messaging_client_id="pay-0",messaging_consumer_group_name="pay"'
    lines = [f"{name}_{end}{{{who},{labels}}} {count}" for name, labels, count in page for end in ("count", "sum")]
    page_text = Page(url="http://page", taken_at=1000.0, text="\n".join(lines) + "\n")
    [found] = page_series(page_text, [load_profile(profile)], cluster="c")
    rows = with_groups(found, load_profile(profile), {"pay-0": "pay"}).to_samples().to_pylist()
    ended = {row["stat"]: row["value"] for row in rows if row["signal"] == "processed"}
    assert ended == {"ok": 40.0, "failed": 2.0}
    assert sum(row["value"] for row in rows if row["signal"] == "process_time" and row["stat"] == "count") == 42.0


def test_a_timer_without_an_outcome_tells_none() -> None:
    """Older versions have no such label: nobody counts how attempts end, which is not that none fails."""
    page = Page(url="http://page", taken_at=1000.0, text=f'{TIMER}_count{{pod="pay-0",name="l"}} 7\n')
    [found] = page_series(page, [load_profile("spring_listener")], cluster="c")
    assert [row["signal"] for row in found.to_samples().to_pylist()] == ["process_time"]


def test_a_page_of_opentelemetrys_agent_has_every_signal_of_its_client() -> None:
    """Agent 2.33; a topic with a dot is one subscription, and no series counts twice."""
    known = load_profile("otel_kafka_clients")
    rows = joined(text("otel_java_agent_2_33"), "otel_kafka_clients").to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(known.signals)
    assert {(row["group"], row["member"]) for row in rows} == {("loyalty", "loyalty-0")}
    assert {row["topic"] for row in rows} == {None, "shop.payments"}
    assert len(rows) == len({(row["signal"], row["partition"]) for row in rows})


def test_opentelemetrys_messaging_metrics_are_of_their_process() -> None:
    """They name a group and no client. What each partition has, and what polls of several have, are parts of one count."""
    page = Page(url="http://pay-0:9464/metrics", taken_at=1000.0, text=text("otel_java_agent_2_33"))
    [found] = page_series(page, [load_profile("otel_messaging")], cluster="c")
    rows = found.to_samples().to_pylist()
    assert {(row["group"], row["topic"], row["member"]) for row in rows} == {("loyalty", "shop.payments", "pay-0:9464")}
    told = {(row["signal"], row["stat"]): row["value"] for row in rows if row["le"] is None}
    assert told["process_time", "count"] == told["processed", "ok"] == 535 + 516
    assert told["deserialized", "value"] == 283 + 261 + 508


def test_strimzis_reporter_writes_counters_without_their_ending() -> None:
    """Version 0.3 inside of Kafka 4.2's client: every signal, once."""
    known = load_profile("strimzi_reporter")
    rows = joined(text("strimzi_reporter_0_3"), "strimzi_reporter").to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(known.signals)
    assert {(row["group"], row["member"]) for row in rows} == {("loyalty", "loyalty-0")}
    assert len(rows) == len({(row["signal"], row["partition"]) for row in rows})
    told = {row["signal"]: row["value"] for row in rows}
    assert (told["rebalances"], told["deserialized"]) == (1.0, 1002.0)
    assert told["start_time"] == pytest.approx(1796019331.513)


def test_a_parallel_consumer_tells_its_records_by_outcome() -> None:
    """Of all partitions together, as its function's times are."""
    [found] = page_series(
        Page(url="http://page", taken_at=1000.0, text=text("parallel_consumer_0_5")),
        [load_profile("parallel_consumer")],
        cluster="c",
    )
    rows = found.to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(load_profile("parallel_consumer").signals)
    ended = [(row["stat"], row["value"], row["topic"]) for row in rows if row["signal"] == "processed"]
    assert sorted(ended) == [("failed", 0.0, None), ("ok", 1606.0, None)]
    assert [row["value"] for row in rows if (row["signal"], row["stat"]) == ("process_time", "count")] == [1601.0]


def test_faststream_counts_what_fails_beside_all_calls() -> None:
    """A record that is tried again and again, with the default name of applications; its label `handler` is the topic."""
    page = Page(url="http://pay-0:8000/metrics", taken_at=1000.0, text=text("faststream_0_7"))
    [found] = page_series(page, [load_profile("faststream")], cluster="c")
    known = load_profile("faststream")
    rows = with_groups(Wholes(known).of(found), known, {"faststream": "loyalty"}).to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(load_profile("faststream").signals)
    assert {row["group"] for row in rows} == {"loyalty"}
    assert {row["topic"] for row in rows if row["signal"] != "in_flight"} == {"payments"}
    told = {(row["signal"], row["stat"]): row["value"] for row in rows if row["le"] is None}
    assert told["process_time", "count"] == told["deserialized", "value"] == 1669
    assert (told["processed", "ok"], told["processed", "failed"]) == (1249, 420)
    assert told["process_time", "sum"] == pytest.approx(20.146, abs=1e-3)


def test_a_faust_application_is_told_by_the_names_of_its_metrics() -> None:
    """It has no label but topic and partition. Its rebalances are those that have ended: its own "total" is of this moment."""
    page = Page(url="http://pay-0:6066/metrics", taken_at=1000.0, text=text("faust_0_15"))
    [found] = page_series(page, [load_profile("faust")], cluster="c")
    rows = with_groups(found, load_profile("faust"), {"loyalty": "loyalty"}).to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(load_profile("faust").signals)
    assert {row["group"] for row in rows} == {"loyalty", None}  # None: ends of logs are for all groups
    offsets = {(row["signal"], row["partition"]): row["value"] for row in rows if row["partition"] is not None}
    assert offsets["committed_offset", 2] == 972 and offsets["log_end_offset", 3] == 1343
    told = {
        (row["signal"], row["stat"]): row["value"] for row in rows if row["partition"] is None and row["le"] is None
    }
    assert (told["rebalances", "value"], told["in_flight", "value"]) == (2.0, 4.0)
    assert told["process_time", "sum"] / told["process_time", "count"] == pytest.approx(0.0996, abs=1e-4)


def test_a_page_of_quarkus_has_its_client_and_its_channel() -> None:
    """The client of all pods has the channel's name; an idle ratio of polls within one millisecond is not a number, and unknown."""
    page = Page(url="http://page", taken_at=1000.0, text=text("quarkus_3_33"))
    client, channel = page_series(page, [load_profile("micrometer"), load_profile("quarkus_messaging")], cluster="c")
    rows = (
        with_groups(client, load_profile("micrometer"), {"kafka-consumer-orders-batch": "pay"}).to_samples().to_pylist()
    )
    assert {row["group"] for row in rows} == {"pay"}
    assert {row["topic"] for row in rows} == {None, "shop.events"}
    assert {row["signal"] for row in rows} == set(load_profile("micrometer").signals)
    assert [(row["value"], row["flag"]) for row in rows if row["signal"] == "poll_idle"] == [(None, "nan")]
    told = {(row["signal"], row["stat"]): (row["processor"], row["value"]) for row in channel.to_samples().to_pylist()}
    assert told == {
        ("process_time", "count"): ("orders-batch", 455.0),
        ("process_time", "sum"): ("orders-batch", pytest.approx(41.537726939)),
        ("processed", "ok"): ("orders-batch", 455.0),
        ("processed", "failed"): ("orders-batch", 0.0),
    }


def test_micronauts_gauges_of_partitions_are_not_read() -> None:
    """They say 0 where hundreds wait, since a rebalance: what they tell is unknown, and the reason is told with what is missing."""
    profile, page = load_profile("micronaut"), text("micronaut_5_9")
    assert page.count("kafka_consumer_records_lag_records{") == 8 and profile.absent["consumer_lag"]
    [found] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [profile], cluster="c")
    rows = with_groups(found, profile, {"consumer-svc-226-21-1": "pay"}).to_samples().to_pylist()
    assert {row["signal"] for row in rows} == set(profile.signals)
    assert {row["partition"] for row in rows} == {None}


def test_what_a_binding_tries_again_shows_in_its_channel_alone() -> None:
    """Spring Kafka's timer has one call for all attempts: of a record that fails again and again it has none yet."""
    page, found = text("spring_cloud_stream_4_3"), {}
    for name in ("spring_listener", "spring_cloud_stream"):
        [series] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [load_profile(name)], cluster="c")
        counts = [it for it in series.to_samples().to_pylist() if it["signal"] == "processed"]
        found[name] = {(it["processor"], it["stat"]): it["value"] for it in counts}
    assert list(found["spring_listener"].values()) == [1526.0]
    assert found["spring_cloud_stream"] == {("orders-in-0", "ok"): 1526.0, ("orders-in-0", "failed"): 33.0}
