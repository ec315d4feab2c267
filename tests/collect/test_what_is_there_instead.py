"""Rules of a Prometheus in which the profiles in use find no group: the error names what is there, and what to write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.servers import Script, scripted
from workbench.collect.capture_in_memory import collect, collect_series
from workbench.collect.what_is_there_instead import there_instead
from workbench.errors import NoSeriesError
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.window import Window

END = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
WINDOW = Window(baseline_start=END - timedelta(hours=1), start=END - timedelta(minutes=15), end=END)
CLIENT = {"topic": "orders", "partition": "0"}


def serving(*series: dict[str, str]) -> Callable[[str, dict[str, list[str]]], bytes]:
    """A Prometheus with these series, each with a value in every minute up to the end."""

    def answer(path: str, query: dict[str, list[str]]) -> bytes:
        if "/label/" in path:
            return json.dumps({"status": "success", "data": sorted({it["__name__"] for it in series})}).encode()
        [asked] = query.get("query", [""])
        words = set(re.split(r"[^\w:-]+", asked))
        only = dict(re.findall(r'(namespace)="([^"]*)"', asked))
        there = [it for it in series if it["__name__"] in words and only.items() <= it.items()]
        values = [[END.timestamp() - 60 * at, "5"] for at in range(10, -1, -1)]
        result = [{"metric": it, "values": values} for it in there]
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()

    return answer


def asked(*series: dict[str, str], **settings: Any) -> tuple[str, str]:
    """Message and hint of the error of a cluster with these series."""
    with scripted(Script(answer=serving(*series))) as server:
        cluster = Cluster(name="prod", prometheus=server.url, **settings)
        with pytest.raises(NoSeriesError) as caught:
            collect(cluster, WINDOW, thresholds=Thresholds())
    return caught.value.message, caught.value.hint or ""


def test_clients_whose_group_nobody_tells_are_named() -> None:
    """A Spring Boot service on its own: the profile fits, and what is missing is the group of each client."""
    lag = "kafka_consumer_fetch_manager_records_lag"
    message, hint = asked(
        *({"__name__": lag, "client_id": name, **CLIENT} for name in ("pay-0", 'b"\n')), profiles=["micrometer"]
    )
    assert "pay-0" in message and "nothing tells their group" in message and "\n" not in message
    assert "members = {" in hint and "bootstrap" in hint
    message, hint = asked(
        {"__name__": lag, "client_id": "pay-0", **CLIENT}, profiles=["micrometer"], bootstrap="127.0.0.1:1"
    )
    assert "nothing tells their group" in message and "bootstrap" not in hint


def test_profiles_that_fit_are_named_as_the_settings_have_them() -> None:
    """The exporter is a known one, and the settings name another."""
    message, hint = asked(
        {"__name__": "kafka_consumer_records_lag", "client_id": "pay-0", **CLIENT}, profiles=["kafka_exporter"]
    )
    assert "fits other profiles than kafka_exporter" in message
    assert 'profiles = ["otel_kafka_clients"]' in hint and "workbench profiles check --cluster prod" in hint


def test_another_queue_is_told_with_its_profile() -> None:
    """Of the twins that read a page, the one that reads most of it; of RocketMQ, the system too."""
    own = {"client_id": "pay-0"}
    fetches = "kafka_consumer_consumer_fetch_manager_metrics"
    _, hint = asked(
        {"__name__": f"{fetches}_records_lag", **own, **CLIENT},
        {"__name__": "kafka_consumer_app_info_start_time_ms", **own},
        profiles=["kafka_exporter"],
    )
    assert 'toml: profiles = ["jmx_exporter_plain"]' in hint
    _, hint = asked(
        {
            "__name__": "rocketmq_group_diff",
            "group": "pay",
            "topic": "orders",
            "countOfOnlineConsumers": "1",
            "msgModel": "1",
        },
        profiles=["kafka_exporter"],
    )
    assert 'system = "rocketmq", and profiles = ["rocketmq_exporter"]' in hint


def test_where_clients_tell_of_their_work_alone_an_exporter_is_asked_for() -> None:
    """How late a runtime's own loop is, is no lag of a group."""
    message, hint = asked(
        {"__name__": "nodejs_eventloop_lag_seconds", "pod": "a"},
        {"__name__": "kafka_consumer_handled_total", "pod": "a"},
        profiles=["kafka_exporter"],
    )
    assert "Nothing there looks like lag or offsets." in message and "An exporter of lag has to be there" in hint


def test_a_group_that_has_gone_is_no_wrong_profile() -> None:
    """Others are read by the same exporter: nothing is said of profiles, labels or targets."""
    there = {"__name__": "kafka_consumergroup_lag", "consumergroup": "other", **CLIENT}
    with scripted(Script(answer=serving(there))) as server:
        cluster = Cluster(name="prod", prometheus=server.url, profiles=["kafka_exporter"])
        assert there_instead(cluster, END) == ("", "")


def test_metrics_that_no_profile_reads_are_named() -> None:
    """By what looks like lag or offsets: a draft begins with them. Other metrics are not listed."""
    message, hint = asked(
        *(
            {"__name__": name, "consumer_group": "dd", **CLIENT}
            for name in ("acme_lag", "acme_offset", "http_requests_total")
        ),
        profiles=["kafka_exporter"],
    )
    assert "looks like lag or offsets there: acme_lag and acme_offset." in message
    assert hint.endswith("workbench profiles new --cluster prod --output profiles/ours.yaml --at 2026-11-21T10:30:00Z")


def test_a_hint_for_now_names_no_time() -> None:
    """What is there now is what the command looks at by itself; of an hour ago it is not."""
    unread = {"__name__": "acme_lag", "consumer_group": "dd", **CLIENT}
    now = datetime.now(UTC)
    with scripted(Script(answer=serving(unread))) as server:
        cluster = Cluster(name="prod", prometheus=server.url, profiles=["kafka_exporter"])
        for at, said in ((now, False), (now - timedelta(hours=1), True)):
            assert (" --at " in there_instead(cluster, at)[1]) is said


def test_series_that_match_leaves_out_are_told_apart_from_an_unknown_exporter() -> None:
    """The exporter's names are known; its labels are not those of `match`."""
    message, hint = asked(
        {"__name__": "kafka_consumergroup_lag", "consumergroup": "pay", "namespace": "a", **CLIENT},
        profiles=["kafka_exporter"],
        match={"namespace": "z"},
    )
    assert "It has kafka_consumergroup_lag, but no sample" in message and "labels of match (namespace)" in message
    assert "match in workbench.toml" in hint


def test_an_empty_prometheus_is_answered_as_before() -> None:
    """Nothing is there: the profiles in use are named."""
    message, hint = asked(profiles=["kafka_exporter"])
    assert message.endswith("10:30:00Z.") and "Profiles in use: kafka_exporter" in hint


def test_a_slot_of_a_sweep_asks_nothing_more() -> None:
    """Of a fleet's many empty slots, each would ask for the names of a whole Prometheus."""
    with scripted(Script(answer=serving({"__name__": "acme_lag", **CLIENT}))) as server:
        cluster = Cluster(name="prod", prometheus=server.url, profiles=["kafka_exporter"])
        with pytest.raises(NoSeriesError):
            collect_series(cluster, WINDOW)
        assert not [path for path, _, _ in server.requests if "/label/" in path]
