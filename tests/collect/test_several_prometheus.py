"""Several Prometheus of one cluster: all are asked, they are one source, and what a silent one measures is never "not there"."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.chunks import answer, bits_of, encode
from tests.collect.test_samples_from_prometheus import END, LAG, WINDOW, body, source
from tests.servers import Script, scripted
from workbench.collect import capture_in_memory
from workbench.collect.samples_from_prometheus import Collected, PrometheusSource
from workbench.errors import NoSeriesError, SourceUnreachableError
from workbench.lab.prometheus import ensure_prometheus, start_prometheus
from workbench.profiles import load_profile
from workbench.prometheus_settings import PrometheusAddress
from workbench.settings import Cluster
from workbench.thresholds import Thresholds

NOBODY = "http://127.0.0.1:9"  # a port on which nobody listens
Addresses = list[str | dict[str, Any]]


def lag(group: str, *values: float, **labels: str) -> tuple[dict[str, str], list[list[object]]]:
    """A lag of a group, with a sample every 15 s up to the window's end."""
    times = [END.timestamp() - 15 * number for number in reversed(range(len(values)))]
    return {**LAG, "consumergroup": group, **labels}, [
        [at, str(value)] for at, value in zip(times, values, strict=True)
    ]


def cluster(*addresses: str | dict[str, Any], **settings: Any) -> Cluster:
    """A cluster with these Prometheus."""
    values = {"name": "c", "prometheus": list(addresses), "profiles": ["kafka_exporter"], "timeout_seconds": 5}
    return Cluster.model_validate({**values, **settings})


def groups_of(found: Collected) -> set[str]:
    """Groups with a lag."""
    return {it for it in found.series.names["group"].to_pylist() if it is not None}


def lags(found: Collected) -> list[float]:
    """Lag by time; these servers answer every query alike, so each sample comes several times."""
    rows = found.series.to_samples().to_pylist()
    return [value for _, value in sorted({(it["ts"], it["value"]) for it in rows if it["signal"] == "consumer_lag"})]


def test_groups_of_two_shards_are_all_there() -> None:
    """Each server has others; nothing is incomplete, and nobody is said to have copies."""
    with scripted(Script(body=body(lag("a", 1)))) as one, scripted(Script(body=body(lag("b", 2)))) as two:
        found = capture_in_memory.collect_series(cluster(one.url, two.url), WINDOW)
        asked = capture_in_memory.collect(cluster(one.url, two.url), WINDOW, thresholds=Thresholds(), groups=["b"])
    assert groups_of(found) == {"a", "b"}
    assert (found.incomplete, found.sources) == ((), ())
    assert asked.info.incomplete == []
    assert "b" in asked.samples["group"].unique().to_pylist()


def test_a_pair_is_one_source_and_that_is_said() -> None:
    """Both have the same series with the same labels; one has a gap where the other has none."""
    whole = lag("a", *range(40))
    holey = (whole[0], whole[1][:10] + whole[1][20:])
    with scripted(Script(body=body(holey))) as one, scripted(Script(body=body(whole))) as two:
        found = capture_in_memory.collect_series(cluster(one.url, two.url), WINDOW)
    assert lags(found) == [float(it) for it in range(40)]
    [note] = found.sources
    assert "have the same series: each counts once" in note
    assert one.url.removeprefix("http://") in note


def test_a_silent_one_is_named_and_its_groups_are_not_absent() -> None:
    """A part of the answer says so; and where only the silent one could know, nobody says that there is no such group."""
    with scripted(Script(body=body(lag("a", 1)))) as one:
        settings = cluster(one.url, "http://user:hunter2@127.0.0.1:9")
        found = capture_in_memory.collect_series(settings, WINDOW)
        assert groups_of(found) == {"a"}
        [text] = found.incomplete
        assert re.search(
            r"Prometheus at 127\.0\.0\.1:9 cannot be reached.*What only this Prometheus measures is missing", text
        )
        saved = capture_in_memory.collect(settings, WINDOW, thresholds=Thresholds(), groups=["a"])
        assert saved.info.incomplete == [text]
        one.body = body()
        with pytest.raises(
            SourceUnreachableError, match=r"127\.0\.0\.1:9 cannot be reached.*no series of group 'b'"
        ) as caught:
            capture_in_memory.collect(settings, WINDOW, thresholds=Thresholds(), groups=["b"])
    assert "hunter2" not in f"{text} {caught.value.message} {caught.value.hint}"
    with pytest.raises(SourceUnreachableError, match=r"127\.0\.0\.1:9 cannot .*127\.0\.0\.1:8 cannot"):
        capture_in_memory.collect_series(cluster(NOBODY, "http://127.0.0.1:8"), WINDOW)


def test_a_group_that_no_server_knows_is_none() -> None:
    """All have answered."""
    with scripted(Script(body=body(lag("a", 1)))) as one, scripted(Script(body=body())) as two:
        assert groups_of(capture_in_memory.collect_series(cluster(one.url, two.url), WINDOW)) == {"a"}
        one.body = body()
        with pytest.raises(NoSeriesError):
            capture_in_memory.collect(cluster(one.url, two.url), WINDOW, thresholds=Thresholds(), groups=["b"])


def test_half_an_answer_is_told_with_the_name_of_its_server() -> None:
    """Warnings of one are not those of the other."""
    half = body(lag("b", 1), warnings=["store 7 is silent"])
    with scripted(Script(body=body(lag("a", 1)))) as one, scripted(Script(body=half)) as two:
        found = capture_in_memory.collect_series(cluster(one.url, two.url), WINDOW)
    assert found.incomplete == (f"{two.url.removeprefix('http://')}: store 7 is silent",)
    assert groups_of(found) == {"a", "b"}


def test_one_that_falls_silent_half_way_is_asked_no_more() -> None:
    """What it has told is kept, and known to be incomplete; the timeout of a dead server is waited for once."""

    def answered() -> Callable[[str, Any], bytes]:
        left = [2]  # stored chunks, which it does not offer, and one query

        def of(_path: str, _query: Any) -> bytes:
            left[0] -= 1
            return body(lag("b", 1)) if left[0] >= 0 else b'{"status":"error","error":"boom"}'

        return of

    with scripted(Script(body=body(lag("a", 1)))) as one, scripted(Script(answer=answered())) as two:
        found = capture_in_memory.collect_series(
            cluster(one.url, two.url, profiles=["kafka_exporter", "runtime"]), WINDOW
        )
    assert groups_of(found) == {"a", "b"}
    assert "boom" in found.incomplete[0]
    assert len(two.requests) == 3 < len(one.requests)


def test_each_gets_its_own_headers_and_matchers() -> None:
    """A token goes to its own server alone; what an address does not say is the cluster's."""
    with scripted(Script(body=body(lag("a", 1)))) as one, scripted(Script(body=body(lag("b", 1)))) as two:
        own = {"url": two.url, "headers": {"Authorization": "Bearer second-token"}, "match": {"env": "prod"}}
        settings = cluster(
            one.url, own, prometheus_headers={"Authorization": "Bearer first-token"}, match={"cluster": "=~x.*"}
        )
        capture_in_memory.collect_series(settings, WINDOW)
        PrometheusSource.of(settings, [load_profile("kafka_exporter")]).examples()
    for server, token, has, lacks in (
        (one, "Bearer first-token", 'cluster=~"x.*"', "env="),
        (two, "Bearer second-token", 'env="prod"', "cluster="),
    ):
        assert {headers["Authorization"] for _, _, headers in server.requests} == {token}
        queries = [query["query"][0] for _, query, _ in server.requests if "query" in query]
        assert queries
        assert all(has in it and lacks not in it for it in queries)
    assert settings.secrets() >= {"first-token", "second-token"}


def test_two_tenants_of_one_host_are_told_apart() -> None:
    """They have one name, so their number is told, too."""
    with scripted(Script(status=500, body=b"boom")) as server:
        tenants = [{"url": server.url, "headers": {"X-Scope-OrgID": tenant}} for tenant in ("a", "b")]
        with pytest.raises(SourceUnreachableError, match=r"\(address 1\).*\(address 2\)"):
            capture_in_memory.collect_series(cluster(*tenants), WINDOW)


def test_names_and_examples_are_those_of_all_servers() -> None:
    """And what a silent one has is known to be missing."""
    with scripted(Script()) as one, scripted(Script()) as two:
        for server, group in ((one, "a"), (two, "b")):
            names = json.dumps({"status": "success", "data": ["up", f"metric_{group}"]}).encode()
            server.answer = lambda path, _query, names=names, group=group: (
                names if "label" in path else body(lag(group, 1))
            )  # type: ignore[misc]
        asked = PrometheusSource.of(cluster(one.url, two.url), [load_profile("kafka_exporter")])
        assert asked.names() == {"up", "metric_a", "metric_b"}
        assert [it["consumergroup"] for it in asked.recent(["x"], most=5)["x"]] == ["a", "b"]
        assert [it["consumergroup"] for it in asked.recent(["x"])["x"]] == ["a"]
        assert asked.partial == ()
        asked = PrometheusSource.of(cluster(one.url, NOBODY), [load_profile("kafka_exporter")])
        assert asked.names() == {"up", "metric_a"}
        assert len(asked.partial) == len(asked.silent) == 1


def chunks_of(
    server: Script, labels: dict[str, str], external: dict[str, str], samples: list[tuple[float, float]]
) -> None:
    """Answers remote read with the external labels, as a Prometheus does, and everything else without them."""
    chunk = encode([(round(at * 1000), bits_of(value)) for at, value in samples])
    names = json.dumps({"status": "success", "data": sorted(labels)}).encode()
    stream = answer(({**labels, **external}, [chunk], 1))
    server.headers["Content-Type"] = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
    by_path = {"/api/v1/read": stream, "/api/v1/labels": names}
    server.answer = lambda path, _query: by_path[path]


def test_external_labels_of_stored_chunks_tell_no_pair_apart() -> None:
    """Whatever the label of a replica is called: its chunks have it, its queries have not, and the series are the same."""
    end = END.timestamp()
    labels = {**LAG, "job": "kafka"}
    with scripted(Script()) as one, scripted(Script()) as two:
        chunks_of(one, labels, {"whatever": "a", "cluster": "x"}, [(end - 30, 1), (end - 15, 2), (end, 3)])
        chunks_of(two, labels, {"whatever": "b", "cluster": "y"}, [(end - 23, 1), (end - 8, 2)])
        found = capture_in_memory.collect_series(cluster(one.url, two.url), WINDOW)
        assert lags(found) == [1, 2, 3]
        alone = capture_in_memory.collect_series(cluster(one.url), WINDOW)
        assert [path for path, _, _ in one.requests].count("/api/v1/labels") == 1
        assert len(alone.series) == len(found.series)


def test_one_that_does_not_tell_its_labels_is_read_by_queries() -> None:
    """A proxy that offers remote read and not the list of labels: what would be a guess is not made."""
    end = END.timestamp()
    with scripted(Script()) as one, scripted(Script(body=body(lag("b", 1)))) as two:
        chunks_of(one, LAG, {"replica": "a"}, [(end, 7)])
        stream = one.answer
        assert stream is not None
        nothing = json.dumps({"status": "success", "data": []}).encode()

        def of(path: str, query: Any) -> bytes:
            if path == "/api/v1/query":
                one.headers.pop("Content-Type", None)
                return body(lag("queried", 1))
            return nothing if path == "/api/v1/labels" else stream(path, query)

        one.answer = of
        assert groups_of(capture_in_memory.collect_series(cluster(one.url, two.url), WINDOW)) == {"queried", "b"}


def test_one_address_is_asked_as_before() -> None:
    """A list of one is one: the same requests in the same order, and no thread."""
    with scripted(Script(body=body(lag("a", 1)))) as server:
        source(server.url).collect(WINDOW)
        plain = list(server.requests)
        server.requests.clear()
        capture_in_memory.collect_series(cluster(server.url), WINDOW)
        assert [(path, query) for path, query, _ in server.requests] == [(path, query) for path, query, _ in plain]


def backfilled(folder: Path, start: int, groups: set[str], gap: range) -> None:
    """Two hours of counters and lags of some groups, without what fell into a gap."""
    program = ensure_prometheus()
    assert program is not None
    folder.mkdir()
    lines = []
    for metric in (
        "kafka_consumergroup_lag",
        "kafka_consumergroup_current_offset",
        "kafka_topic_partition_current_offset",
    ):
        lines.append(f"# TYPE {metric} gauge")
        for group in sorted(groups) if "group" in metric else ["-"]:
            owner = f'consumergroup="{group}",' if group != "-" else ""
            for at in range(start, start + 7200, 15):
                value = 5 if metric.endswith("_lag") else 10 * (at - start) + (5 if group == "-" else 0)
                if at not in gap:
                    lines.append(f'{metric}{{{owner}topic="t",partition="0",instance="e:9308",job="k"}} {value} {at}')
    (folder / "samples.txt").write_text("\n".join([*lines, "# EOF", ""]))
    words: list[str | Path] = [program.with_name("promtool"), "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run([*words, folder / "samples.txt", folder / "data"], capture_output=True, check=True)


def with_external_labels(url: str, pid: int, config: Path, labels: dict[str, str]) -> None:
    """Have a running Prometheus read its settings anew."""
    config.write_text(config.read_text().replace("global:", f"global:\n  external_labels: {json.dumps(labels)}", 1))
    os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + 10
    while "external_labels" not in requests.get(f"{url}/api/v1/status/config", timeout=5).text:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.lab
def test_a_real_pair_with_gaps_and_a_real_shard(tmp_path: Path) -> None:
    """Two replicas with external labels and gaps at different times, and a third server with another group."""
    start = (int(time.time()) // 7200 - 3) * 7200
    end = datetime.fromtimestamp(start + 7200 - 15, UTC)
    window = WINDOW.ending(end, length=timedelta(minutes=30), baseline=timedelta(minutes=80))
    middle = start + 3600
    servers = []
    try:
        for name, groups, gap in (
            ("a", {"pay"}, range(middle, middle + 600)),
            ("b", {"pay"}, range(middle + 1200, middle + 2400)),
            ("c", {"ship"}, range(0)),
        ):
            backfilled(tmp_path / name, start, groups, gap)
            server = start_prometheus(tmp_path / name)
            servers.append(server)
            with_external_labels(server.url, server.child.pid, tmp_path / name / "prometheus.yml", {"whatever": name})
        urls = [it.url for it in servers]
        found = capture_in_memory.collect_series(cluster(*urls), window)
        assert (groups_of(found), found.incomplete) == ({"pay", "ship"}, ())
        for number in range(len(found.series)):
            one = found.series.take([number])
            assert set((one.ts_us[1:] - one.ts_us[:-1]).tolist()) == {15_000_000}, one.names.to_pylist()
        asked = PrometheusSource(
            addresses=[PrometheusAddress(url=it) for it in urls], cluster="c", profiles=[load_profile("kafka_exporter")]
        )
        assert asked.names() >= {"kafka_consumergroup_lag"}
        by_chunks = asked.collect(window)
        assert all(it._chunks_offered for it in asked.servers)
        servers[2].stop()
        missing = capture_in_memory.collect_series(cluster(*urls), window)
        assert groups_of(missing) == {"pay"}
        assert len(missing.incomplete) == 1
        assert len(by_chunks.series.ts_us) == len(found.series.ts_us) > len(missing.series.ts_us)
    finally:
        for server in servers:
            server.stop()
