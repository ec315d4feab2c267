"""A listener's timer knows no client: its group is that of its process's clients, and its times are for each record, or left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.collect.test_samples_from_prometheus import END, WINDOW, by_selector
from tests.servers import Script, scripted
from workbench.collect.groups_of_processes import _handled, _in_batches
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.collect.source_join import named_by_client, with_patterns
from workbench.profiles import load_profile
from workbench.prometheus_settings import PrometheusAddress

Series = tuple[dict[str, str], list[list[object]]]
TIMES = [END.timestamp() - 300 + 15 * at for at in range(20)]
CALLS = 50.0  # between two samples


def line(metric: str, each: float, /, **labels: str) -> Series:
    """A counter that grows by so much between two samples."""
    return {"__name__": metric, **labels}, [[at, str(each * number)] for number, at in enumerate(TIMES)]


def client(name: str, pod: str, records: float, topic: str = "orders") -> list[Series]:
    """What Micrometer tells of a client: that it polls, and what it has read of a topic."""
    own = {"client_id": name, "pod": pod}
    return [
        line("kafka_consumer_last_poll_seconds_ago", 0, **own),
        line("kafka_consumer_fetch_manager_records_consumed_total", records, topic=topic, **own),
    ]


def timer(pod: str, name: str = "orders-0", calls: float = CALLS, **labels: str) -> list[Series]:
    """A listener's timer, 20 ms a call, with one bucket."""
    own = {"pod": pod, **(labels or {"name": name, "result": "success", "exception": "none"})}
    metric = "spring_kafka_listener_seconds"
    whole = [line(f"{metric}_count", calls, **own), line(f"{metric}_sum", 0.02 * calls, **own)]
    return [*whole, line(f"{metric}_bucket", calls, le="0.5", **own)]


def read(
    members: dict[str, str], *series: Series, also: Sequence[str] = (), of: str = "spring_listener"
) -> list[dict[str, Any]]:
    """Samples of the timer, as the server's series are understood beside those of the clients."""
    with scripted(Script(answer=by_selector(*series))) as server:
        source = PrometheusSource(
            addresses=[PrometheusAddress(url=server.url)],
            cluster="c",
            profiles=[load_profile(it) for it in (of, "micrometer", *also)],
            members=members,
        )
        rows = source.collect(WINDOW).series.to_samples().to_pylist()
    return [row for row in rows if row["source"] == of]


def whose(rows: list[dict[str, Any]], signal: str = "process_time") -> set[tuple[str, str]]:
    """Groups and members of a signal."""
    return {(row["group"], row["member"]) for row in rows if row["signal"] == signal}


def test_the_only_client_of_a_process_is_the_listeners() -> None:
    """The timer has the client's group and name, whatever its container is called."""
    rows = read({"pay-0-0": "pay"}, *client("pay-0-0", "pay-0", CALLS), *timer("pay-0", "billing-0"))
    assert whose(rows) == whose(rows, "processed") == {("pay", "pay-0-0")}
    assert {row["stat"] for row in rows if row["signal"] == "process_time"} == {"count", "sum", "bucket"}


def test_clients_of_one_name_are_told_apart_by_their_process() -> None:
    """Java's default ids are the same in every process, and so are the names of containers."""
    pods = [[*client("consumer-pay-1", pod, CALLS), *timer(pod)] for pod in ("pay-a", "pay-b")]
    rows = read({"consumer-pay-1": "pay"}, *pods[0], *pods[1])
    assert whose(rows) == {("pay", f"consumer-pay-1 ({pod})") for pod in ("pay-a", "pay-b")}


def test_threads_of_several_clients_keep_their_own_names() -> None:
    """Nobody tells which of a process's clients a thread polls."""
    clients = [*client("pay-0-0", "pay-0", CALLS), *client("pay-0-1", "pay-0", CALLS)]
    rows = read({"pay-0-0": "pay", "pay-0-1": "pay"}, *clients, *timer("pay-0"), *timer("pay-0", "orders-1"))
    assert whose(rows) == {("pay", "orders-0 (pay-0)"), ("pay", "orders-1 (pay-0)")}


def test_several_threads_are_no_client_though_all_of_theirs_have_one_name() -> None:
    """Spring gives the consumers of retry topics the client id of the first one, and Micrometer shows one of them."""
    timers = [it for name in ("orders-0", "orders-retry-0") for it in timer("pay-0", name)]
    rows = read({"pay-0-0": "pay"}, *client("pay-0-0", "pay-0", CALLS), *timers)
    assert whose(rows) == {("pay", "orders-0 (pay-0)"), ("pay", "orders-retry-0 (pay-0)")}
    assert max(row["value"] for row in rows if row["stat"] == "count") == 19 * CALLS


def test_of_a_process_with_two_groups_only_a_thread_that_names_one_is_known() -> None:
    """A container is named after its listener, which Spring's default makes the group; another name says nothing."""
    clients = [*client("a", "pod", CALLS), *client("b", "pod", CALLS)]
    rows = read({"a": "pay", "b": "mail"}, *clients, *timer("pod", "pay-0"), *timer("pod", "other-0"))
    assert whose(rows) == whose(rows, "processed") == {("pay", "a")}


def test_an_observed_listener_names_its_group_itself() -> None:
    """Also where no client of its process is known; its topic, too. What fails has the error's name."""
    own = {
        "messaging_kafka_consumer_group": "pay",
        "messaging_source_name": "shop.orders",
        "spring_kafka_listener_id": "l-0",
    }
    rows = read({}, *timer("pod", **own, error="none"), *timer("pod", calls=5, **own, error="Oops"))
    assert whose(rows) == {("pay", "l-0 (pod)")}
    assert {row["topic"] for row in rows} == {"shop.orders"}
    last = {(row["signal"], row["stat"]): row["value"] for row in rows if row["ts"].timestamp() == TIMES[-1]}
    assert last["processed", "ok"] == 19 * CALLS and last["processed", "failed"] == 19 * 5
    assert last["process_time", "count"] == 19 * (CALLS + 5)


def test_messaging_metrics_of_two_processes_are_two_members() -> None:
    """OpenTelemetry's have no client id. They are no copies of each other, and each process is its client."""
    own = {"messaging_consumer_group_name": "pay", "messaging_operation_name": "process"}
    metric = "messaging_process_duration_seconds"
    series = [line(f"{metric}_{end}", CALLS, pod=f"pay-{at}", **own) for at in range(3) for end in ("count", "sum")]
    clients = [it for at in range(2) for it in client(f"c-{at}", f"pay-{at}", CALLS)]
    rows = read({"c-0": "pay", "c-1": "pay"}, *clients, *series, of="otel_messaging")
    assert whose(rows) == whose(rows, "processed") == {("pay", "c-0"), ("pay", "c-1"), ("pay", "pay-2")}
    counts = [row["value"] for row in rows if row["stat"] == "count" and row["ts"].timestamp() == TIMES[-1]]
    assert counts == [19 * CALLS] * 3


def test_an_instance_that_calls_itself_by_a_number_is_its_client() -> None:
    """A parallel consumer that nobody has named; one that the settings map, here by a pattern, needs no client beside it."""
    of_process = {"pcinstance": "0b1c-9", "pod": "pay-0"}
    series = [line(f"pc_user_function_processing_time_seconds_{end}", CALLS, **of_process) for end in ("count", "sum")]
    named = [({**labels, "pcinstance": "mail-1", "pod": "mail-0"}, values) for labels, values in series]
    waiting = line("pc_partition_incomplete_offsets", 0, topic="orders", partition="3", **of_process)
    rows = read(
        {"c": "pay", "mail-*": "mail"}, *client("c", "pay-0", CALLS), *series, *named, waiting, of="parallel_consumer"
    )
    assert whose(rows) == {("pay", "c"), ("mail", "mail-1 (mail-0)")}
    assert whose(rows, "fetch_queue_length") == {("pay", "c")}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_is_as_many_records_as_its_client_has_read(threads: int) -> None:
    """A call of a listener that takes batches is no record: its time is shared among those that polls have returned."""
    clients = [it for at in range(threads) for it in client(f"pay-0-{at}", "pay-0", 30 * CALLS)]
    timers = [it for at in range(threads) for it in timer("pay-0", f"orders-{at}")]
    rows = read({f"pay-0-{at}": "pay" for at in range(threads)}, *clients, *timers)
    times = {
        row["stat"]: row["value"]
        for row in rows
        if row["signal"] == "process_time" and row["ts"].timestamp() == TIMES[-1]
    }
    assert times == {"count": threads * 19 * 30 * CALLS, "sum": pytest.approx(threads * 19 * 0.02 * CALLS)}
    assert len({row["member"] for row in rows if row["signal"] == "process_time"}) == 1
    assert max(row["value"] for row in rows if row["signal"] == "processed") == 19 * CALLS


def test_a_page_that_two_servers_scrape_is_counted_once() -> None:
    """The records of one copy are not those of both."""
    pair = [*client("pay-0-0", "pay-0", 30 * CALLS), *timer("pay-0")]
    twice = [({**labels, "prometheus_replica": name}, values) for name in "ab" for labels, values in pair]
    rows = read({"pay-0-0": "pay"}, *twice)
    counts = [row["value"] for row in rows if row["stat"] == "count" and row["ts"].timestamp() == TIMES[-1]]
    assert counts == [19 * 30 * CALLS]


@pytest.mark.parametrize(("records", "counted"), [(CALLS, CALLS), (30 * CALLS, 30 * CALLS)])
def test_an_agent_with_a_page_of_its_own_is_scraped_at_other_times(records: float, counted: float) -> None:
    """What the client has read is then known from the scrape before."""
    later = [(labels, [[float(str(at)) + 6, value] for at, value in values]) for labels, values in timer("pay-0")]
    rows = read({"pay-0-0": "pay"}, *client("pay-0-0", "pay-0", records), *later)
    counts = [row["value"] for row in rows if row["signal"] == "process_time" and row["stat"] == "count"]
    assert counts[-1] - counts[0] == (len(counts) - 1) * counted
    assert len(counts) >= len(TIMES) - 1


def test_times_of_calls_are_left_out_where_nobody_counts_records() -> None:
    """One call may be a batch of thousands; what fails is still told."""
    poll = [it for it in client("pay-0-0", "pay-0", CALLS) if "consumed" not in it[0]["__name__"]]
    rows = read({"pay-0-0": "pay"}, *poll, *timer("pay-0"))
    assert {row["signal"] for row in rows} == {"processed"}


def test_a_thread_of_an_unknown_process_is_left_out() -> None:
    """Its group is not guessed."""
    assert read({"pay-0-0": "pay"}, *client("pay-0-0", "pay-0", CALLS), *timer("mail-0")) == []


def faststream(pod: str, calls: float = CALLS, records: float = CALLS, app: str = "faststream") -> list[Series]:
    """What FastStream's middleware tells of a subscriber, 20 ms a call; by default, all services have one name."""
    own = {"app_name": app, "broker": "kafka", "handler": "orders", "pod": pod}
    metric = "faststream_received_processed_messages_duration_seconds"
    timer = [line(f"{metric}_{end}", each * calls, **own) for end, each in (("count", 1.0), ("sum", 0.02))]
    return [*timer, line("faststream_received_messages_total", records, **own)]


@pytest.mark.parametrize(
    ("app", "members"),
    [
        ("faststream", {"pay-*": "pay"}),  # whoever has not named it tells its pods
        ("shop", {"shop": "pay"}),
        ("pay", {"c": "pay"}),  # a name that is a group's
    ],
)
def test_a_process_without_clients_is_known_by_its_name_or_its_pod(app: str, members: dict[str, str]) -> None:
    """Two pods of one name are two members from the first sample on, and no copies of each other."""
    rows = read(members, *faststream("pay-a", app=app), *faststream("pay-b", app=app), of="faststream")
    assert whose(rows) == whose(rows, "processed") == {("pay", f"{app} (pay-a)"), ("pay", f"{app} (pay-b)")}
    assert {row["topic"] for row in rows} == {"orders"}


def test_a_name_that_is_another_groups_says_nothing_beside_a_client() -> None:
    """The clients of a process tell whose it is; what it calls itself may be a group elsewhere."""
    rows = read({"c": "pay", "d": "orders"}, *client("c", "pay-0", CALLS), *timer("pay-0", "orders"))
    assert whose(rows) == {("pay", "c")}


def test_a_batch_is_as_many_records_as_its_process_counts() -> None:
    """A framework whose clients export nothing counts them itself."""
    rows = read({"pay-*": "pay"}, *faststream("pay-a", records=30 * CALLS), of="faststream")
    times = {
        row["stat"]: row["value"]
        for row in rows
        if row["signal"] == "process_time" and row["ts"].timestamp() == TIMES[-1]
    }
    assert times == {"count": 19 * 30 * CALLS, "sum": pytest.approx(19 * 0.02 * CALLS)}


def test_an_application_in_the_names_of_its_metrics_is_in_the_group_of_that_name() -> None:
    """Faust writes dots and dashes as underscores; an application that has another name is left out."""
    metric = "events_runtime_ms"
    series = [
        line(f"{app}_{metric}_{end}", each * CALLS, pod=pod)
        for app, pod in (("shop_pay", "a"), ("shop_pay", "b"), ("mail", "m"))
        for end, each in (("count", 1.0), ("sum", 20.0))
    ]
    rows = read({"c": "shop.pay"}, *series, of="faust")
    assert whose(rows) == {("shop.pay", "shop_pay (a)"), ("shop.pay", "shop_pay (b)")}
    sums = [row["value"] for row in rows if row["stat"] == "sum" and row["ts"].timestamp() == TIMES[-1]]
    assert sums == [pytest.approx(19 * 0.02 * CALLS)] * 2


POLL = np.tile([500.0, 0.0, 0.0, 0.0, 0.0], 8)  # a poll brings 500, which take five samples


@pytest.mark.parametrize(
    ("calls", "records", "batches"),
    [
        (np.full(40, 100.0), np.full(40, 100.0), False),
        (np.full(40, 100.0), POLL, False),  # a slow handler: what a poll has brought waits
        (np.array([100.0] * 30 + [2.0] * 10), np.array([100.0] * 30 + [500.0] + [0.0] * 9), False),  # it hangs
        (np.full(40, 10.0), np.full(40, 300.0), True),
        (np.full(40, 80.0), np.full(40, 85.0), False),  # nearly all batches are of one: the same for a verdict
        (np.array([20.0] * 20 + [4.0] * 20), np.array([20.0] * 20 + [200.0] * 20), True),  # small batches, then large ones
        (np.zeros(40), np.zeros(40), False),
    ],
)  # fmt: skip
def test_a_batch_is_no_record_that_waits(calls: np.ndarray, records: np.ndarray, *, batches: bool) -> None:
    """Records that wait in a thread are called later; those of a batch never."""
    none_fails = np.zeros(40)
    assert _in_batches(np.cumsum(calls), np.cumsum(records), none_fails) is batches
    restarted = [np.concatenate([np.cumsum(it), np.cumsum(it)]) for it in (calls, records, none_fails)]
    assert _in_batches(*restarted) is batches


def test_what_is_read_again_since_a_call_failed_is_no_batch() -> None:
    """The error handler seeks back, so a poll's records come once more with each failure; only times without one tell."""
    calls = np.cumsum(np.array([100.0] * 20 + [10.0] * 20))
    records = np.cumsum(np.array([100.0] * 20 + [5000.0] * 20))
    fails = np.cumsum(np.array([0.0] * 20 + [10.0] * 20))
    assert _in_batches(calls, records, fails) is False
    assert _in_batches(calls[21:], records[21:], fails[21:]) is None
    assert _in_batches(calls, 30 * calls, fails) is True


@pytest.mark.parametrize("each", [1, 5, 20])
@pytest.mark.parametrize("seed", range(5))
def test_a_service_in_which_some_calls_always_fail(seed: int, each: int) -> None:
    """No sample is without a failure: calls of one record and of several are told apart, or it is open where failures blur it."""
    chance = np.random.default_rng(seed)
    calls, fails = chance.poisson(200 / each, 120), chance.poisson(2, 120) + 1
    for again, open_too in ((30, ()), (500, (None,))):
        records = each * (calls - fails) + np.array([chance.integers(1, again, it).sum() for it in fails])
        found = _in_batches(*(np.cumsum(it.astype(float)) for it in (calls, records, fails)))
        assert found in (each > 1, *open_too)


@pytest.mark.parametrize(
    ("failing", "each"),
    [(0, 300.0), (10, 10.0), (5, 5.0 + 150.0)],  # ten calls: none, all or half of them fail
)
def test_a_batch_that_fails_is_one_attempt(failing: int, each: float) -> None:
    """What it had comes once more, and is no record that was handled."""
    calls, records, fails = (np.cumsum(np.full(20, it)) for it in (10.0, 300.0, float(failing)))
    assert np.allclose(np.diff(_handled(calls, records, fails)), each)


def test_records_of_a_batch_count_when_its_call_has_ended() -> None:
    """Until then they are in a handler; a process that begins anew counts from 0."""
    calls, records = np.array([0.0, 0, 1, 1, 1, 2, 0, 1]), np.array([0.0, 500, 500, 500, 1000, 1000, 0, 500])
    done = _handled(calls, records, np.zeros(8))
    assert done.tolist() == [0, 0, 500, 500, 500, 1000, 1000, 1500]
    assert np.isnan(_handled(calls, np.full(8, np.nan), np.zeros(8))).all()


def test_a_client_that_nobody_has_named_tells_its_group() -> None:
    """Java's client makes `consumer-GROUP-1` of it; it counts where the group is known, also when the member is gone."""
    ids = ["consumer-pay-1-2", "consumer-pay-1", "consumer-mail-7", "consumer-pay", "pay-0", None]
    assert named_by_client(ids, {"pay", "pay-1"}) == {"consumer-pay-1-2": "pay-1", "consumer-pay-1": "pay"}


def test_what_kafka_or_the_settings_say_of_a_client_counts_more_than_its_name() -> None:
    """A member with an instance id of its own, `eu-1`, is called as the first one of another group would be."""
    rows = read(
        {"consumer-pay-eu-1": "pay", "other": "pay-eu"}, *client("consumer-pay-eu-1", "pod", CALLS), *timer("pod")
    )
    assert whose(rows) == {("pay", "consumer-pay-eu-1")}


def test_clients_that_kafka_does_not_list_are_known_by_a_pattern() -> None:
    """Who has crashed, or was put out of its group, is no member; a name that is written out, or listed, counts more."""
    known = {"pay-0": "pay", "pay-*": "pay", "p*": "mail", "pay-7f-x": "other"}
    assert with_patterns(known, pa.chunked_array([["pay-0", "pay-1", "post", "pay-7f-x", "q", None]])) == {
        **known,
        "pay-1": "pay",
        "post": "mail",
    }
    rows = read({"pay-*": "pay"}, *client("pay-7c9f-x", "pay-7c9f-x", CALLS), *timer("pay-7c9f-x"))
    assert whose(rows) == {("pay", "pay-7c9f-x")}


def test_what_holds_up_a_process_is_its_groups() -> None:
    """A CPU limit, by the node's cAdvisor; garbage, by its own page. Only the clients' processes are asked for."""
    clients = [
        *client("pay-0-0", "pay-0", CALLS),
        *client("pay-0-1", "pay-0", CALLS),
        *client("pay-1-0", "pay-1", CALLS),
    ]
    cgroup = {"instance": "node", "namespace": "shop", "id": "/kubepods/x"}
    limits = [
        line(f"container_cpu_cfs_{name}periods_total", each, pod=pod, container=container, **cgroup)
        for name, each in (("", 150), ("throttled_", 60))
        for pod, container in (("pay-0", "app"), ("pay-1", "app"), ("pay-1", "istio-proxy"))
    ]
    garbage = [
        line("jvm_gc_pause_seconds_sum", each, pod="pay-0", gc="G1 Young Generation", action=action)
        for action, each in (("end of minor GC", 2), ("end of major GC", 4))
    ]
    concurrent = line("jvm_gc_collection_seconds_sum", 9, pod="pay-1", gc="G1 Concurrent GC")
    script = Script(answer=by_selector(*clients, *limits, *garbage, concurrent))
    with scripted(script) as server:
        source = PrometheusSource(
            addresses=[PrometheusAddress(url=server.url)],
            cluster="c",
            profiles=[load_profile(it) for it in ("processes", "micrometer")],
            members={"pay-0-0": "pay", "pay-0-1": "pay", "pay-1-0": "pay"},
        )
        rows = source.collect(WINDOW).series.to_samples().to_pylist()
    mine = [it for it in rows if it["source"] == "processes"]
    assert {it["group"] for it in mine} == {"pay"}
    assert {(it["signal"], it["stat"], it["member"]): it["value"] for it in mine} == {
        ("cpu_periods", "all", "app (pay-0)"): 19 * 150,
        ("cpu_periods", "stopped", "app (pay-0)"): 19 * 60,
        ("cpu_periods", "all", "pay-1-0"): 19 * 150,
        ("cpu_periods", "stopped", "pay-1-0"): 19 * 60,
        ("gc_time", "stopped", "pay-0"): 19 * 6,
        ("gc_time", "all", "pay-0"): TIMES[-1],
    }
    [asked] = {str(query) for _, query, _ in script.requests if "cfs" in str(query)}
    assert "pod=~" in asked and "pay" in asked


def test_two_processes_of_a_host_are_not_each_others() -> None:
    """One tells no client: its listener is nobody's, and not that of its neighbour."""
    clients = client("pay-0-0", "", CALLS)
    series = [*clients, *timer("", "orders-0"), *timer("", "mail-0")]
    placed = [
        ({**labels, "host": "vm1", "instance": "vm1:8081" if labels.get("name") == "mail-0" else "vm1:8080"}, values)
        for labels, values in series
    ]
    rows = read({"pay-0-0": "pay"}, *placed)
    assert whose(rows) == whose(rows, "processed") == {("pay", "pay-0-0")}
    assert max(row["value"] for row in rows if row["stat"] == "count") == 19 * CALLS


def test_what_an_agent_and_micrometer_both_count_is_read_once() -> None:
    """Else each call would seem to have two records."""
    metric = "kafka_consumer_fetch_manager_records_consumed"
    agent = line(metric, CALLS, clientId="pay-0-0", pod="pay-0", topic="orders", type="consumer-fetch-manager-metrics")
    for records in (CALLS, 30 * CALLS):
        series = [*client("pay-0-0", "pay-0", records), *timer("pay-0"), (agent[0], line(metric, records)[1])]
        rows = read({"pay-0-0": "pay"}, *series, also=["jmx_exporter"])
        counts = [row["value"] for row in rows if row["signal"] == "process_time" and row["stat"] == "count"]
        assert max(counts) == 19 * records


@pytest.mark.parametrize(("copies", "usable"), [((), 0), (("instance",), 20)])
def test_a_process_that_is_scraped_twice_is_judged_when_the_settings_say_so(copies: Sequence[str], usable: int) -> None:
    """Under two names it looks like two members that read one partition."""
    own = {
        "client_id": "pay-0-0",
        "topic": "orders",
        "partition": "2",
        "__name__": "kafka_consumer_fetch_manager_records_lag",
    }
    pages = [
        ({**own, "instance": name}, [[at + later, str((number + later) % 5)] for number, at in enumerate(TIMES)])
        for later, name in enumerate(("10.0.0.1:80", "pay:80"))
    ]
    with scripted(Script(answer=by_selector(*pages))) as server:
        source = PrometheusSource(
            addresses=[PrometheusAddress(url=server.url)],
            cluster="c",
            profiles=[load_profile("micrometer")],
            members={"pay-0-0": "pay"},
            copies=copies,
        )
        found = source.collect(WINDOW)
    assert np.count_nonzero(~np.isnan(found.series.values)) == usable
    assert any("nothing shows which member reads" in it for it in found.sources) is not bool(usable)
