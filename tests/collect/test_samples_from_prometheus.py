"""Rules of the Prometheus collector: right samples, or a clear error; never a silent part of the truth."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles.pages import PAGES
from tests.servers import Script, scripted
from workbench.collect.capture_in_memory import collect
from workbench.collect.one_prometheus import MAX_POINTS, chunks, fitting_step
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.errors import NoSeriesError, SourceUnreachableError
from workbench.lab.prometheus import start_prometheus
from workbench.profiles import load_profile
from workbench.prometheus_settings import PrometheusAddress
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.window import Window

END = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
LATE = "confluent_kafka_server_consumer_lag_offsets"  # five minutes and more, with times of its own
WINDOW = Window.ending(END, length=timedelta(minutes=5), baseline=timedelta(minutes=5))


def source(url: str, *, timeout_seconds: float = 5.0, step_seconds: int | None = None) -> PrometheusSource:
    """A source with kafka_exporter's names."""
    return PrometheusSource(
        addresses=[PrometheusAddress(url=url)],
        cluster="c",
        profiles=[load_profile("kafka_exporter")],
        timeout_seconds=timeout_seconds,
        step_seconds=step_seconds,
    )


def body(*series: tuple[dict[str, str], list[list[object]]], **extra: object) -> bytes:
    """A matrix answer."""
    result = [{"metric": labels, "values": values} for labels, values in series]
    return json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": result}, **extra}, separators=(",", ":")
    ).encode()


LAG = {"__name__": "kafka_consumergroup_lag", "consumergroup": "g", "topic": "t", "partition": "0"}


def test_raw_samples_are_asked_for_without_compression() -> None:
    """`m[range]` at the end of the window, `Accept-Encoding: identity`; what lies outside of the window is dropped."""
    end = END.timestamp()
    answer = body((LAG, [[end - 601, "1"], [end - 600, "2"], [end - 1, "-1"], [end + 5, "3"]]))
    with scripted(Script(body=answer)) as server:
        found = source(server.url).collect(WINDOW)
    # Everything is asked for, so first by stored chunks, which this server does not offer; it is not asked for them again.
    assert [path for path, _, _ in server.requests].count("/api/v1/read") == 1
    path, query, headers = server.requests[1]
    assert path == "/api/v1/query"
    assert query["query"][0].endswith("[600000ms]")
    assert float(query["time"][0]) == end
    assert headers["Accept-Encoding"] == "identity"
    table = found.series.where(pc.equal(found.series.names["signal"], "consumer_lag")).to_samples()
    assert table["value"].to_pylist()[:2] == [2.0, None]
    assert table["flag"].to_pylist()[:2] == [None, "sentinel"]


def test_a_group_is_selected_by_an_exact_matcher_and_ends_of_logs_by_its_topics() -> None:
    """A lag exporter has no group on the ends of logs; they are asked for by the topics that the group turned out to read."""
    with scripted(Script(body=body((LAG, [[END.timestamp(), "1"]])))) as server:
        source(server.url).collect(WINDOW, groups=["g"])
    queries = [query["query"][0] for _, query, _ in server.requests]
    assert any('consumergroup="g"' in query for query in queries)
    assert any('topic="t"' in query and "consumergroup" not in query for query in queries)


POSITION = {
    "__name__": "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset",
    "job_name": "job",
    "topic": "t",
    "partition": "0",
}
LOG_END = {"__name__": "kafka_topic_partition_current_offset", "topic": "t", "partition": "0"}


def by_selector(*series: tuple[dict[str, str], list[list[object]]]) -> Callable[[str, dict[str, list[str]]], bytes]:
    """A server that answers with the series whose name the selector has, and whose labels it does not exclude by `=`."""

    def answer(_path: str, query: dict[str, list[str]]) -> bytes:
        asked = query.get("query", [""])[0]
        wanted = dict(re.findall(r'(\w+)="([^"]*)"', asked))
        patterns = re.findall(r'__name__=~"([^"]*)"', asked)
        return body(
            *(
                it
                for it in series
                if (it[0]["__name__"] in asked or any(re.fullmatch(of, it[0]["__name__"]) for of in patterns))
                and all(it[0][k] == v for k, v in wanted.items() if k in it[0])
            )
        )

    return answer


@pytest.mark.parametrize("groups", [None, ["job"], ["job", "g"]])
@pytest.mark.parametrize("with_group", [False, True])
def test_ends_of_logs_are_read_for_groups_that_the_exporter_does_not_know(
    groups: list[str] | None, with_group: bool
) -> None:
    """A Flink job commits nothing, so no lag exporter has its group: its lag is its position behind the exporter's log end."""
    now = END.timestamp()
    other = {**LAG, "topic": "of g"}
    there = [(LOG_END, [[now, "90"]]), (POSITION, [[now, "69"]]), *([(other, [[now, "1"]])] if with_group else [])]
    with scripted(Script(answer=by_selector(*there))) as server:
        asked = source(server.url)
        asked.profiles, asked.members = (
            [load_profile("kafka_exporter"), load_profile("flink_positions")],
            {"job": "job"},
        )
        rows = asked.collect(WINDOW, groups=groups).series.to_samples().to_pylist()
    lags = {(row["group"], row["value"]) for row in rows if row["signal"] == "consumer_lag"}
    assert ("job", 20.0) in lags


@pytest.mark.parametrize("groups", [None, ["job"]])
def test_the_end_that_a_query_saw_hides_no_lag(groups: list[str] | None) -> None:
    """Spark tells the log's end of the batch that it has read, behind which nothing waits: the exporter's is asked for all the same."""
    now, place = END.timestamp(), {"query": "job", "topic": "t", "partition": "0"}
    read, latest = ({"__name__": f"spark_kafka_{it}_offset", **place} for it in ("end", "latest"))
    there = [(LOG_END, [[now, "90"]]), (read, [[now, "70"]]), (latest, [[now, "70"]])]
    with scripted(Script(answer=by_selector(*there))) as server:
        asked = source(server.url)
        asked.profiles = [load_profile("kafka_exporter"), load_profile("spark_streaming")]
        asked.members = {"job": "job"}
        rows = asked.collect(WINDOW, groups=groups).series.to_samples().to_pylist()
    assert {row["value"] for row in rows if row["signal"] == "consumer_lag"} == {20.0}


@given(st.integers(0, 10**9), st.integers(1, 60_000), st.sampled_from([15, 30, 60, 300]))
def test_chunks_cover_every_instant_once(start: int, points: int, step: int) -> None:
    """Aligned to the step, below Prometheus' limit of points, in order, with no instant twice and none left out."""
    first = datetime.fromtimestamp(start, UTC)
    last = first + timedelta(seconds=points * step)
    instants: list[int] = []
    for begin, end in chunks(first, last, step):
        count = (end - begin).total_seconds() / step + 1
        assert count <= MAX_POINTS < 11_000
        assert begin.timestamp() % step == 0
        instants += range(int(begin.timestamp()), int(end.timestamp()) + 1, step)
    assert instants == list(range(instants[0], instants[-1] + 1, step))
    assert instants[0] <= first.timestamp()
    assert instants[-1] >= last.timestamp()


def test_long_windows_are_asked_for_by_step() -> None:
    """Two days go through query_range, with a round step."""
    window = Window.ending(END, length=timedelta(days=1), baseline=timedelta(days=1))
    with scripted(Script(body=body())) as server:
        source(server.url).collect(window)
    path, query, _ = server.requests[0]
    assert path == "/api/v1/query_range"
    assert int(query["step"][0]) == fitting_step(2 * 86_400) == 120


def test_warnings_are_kept_as_incomplete() -> None:
    """A partial answer (Thanos, a truncating limit, VictoriaMetrics) is told, not swallowed; however many stores are silent."""
    stores = [f"store {number}: {'x' * 400}" for number in range(20)]
    for extra, told in (({"warnings": ["truncated"]}, 1), ({"warnings": stores}, 20), ({"isPartial": True}, 1)):
        with scripted(Script(body=body((LAG, [[END.timestamp(), "1"]]), **extra))) as server:
            asked = source(server.url)
            found = asked.collect(WINDOW)
            assert len(found.incomplete) == told
            assert len(found.series)
            server.body = body((LAG, [[END.timestamp(), "1"]]))
            assert asked.collect(WINDOW).incomplete == (), "the next answer is another one"


def test_what_is_missing_from_a_list_of_names_is_told_too() -> None:
    """A metric that is absent because a store was silent is not known to be absent."""
    names = json.dumps({"status": "success", "isPartial": True, "data": ["up"], "warnings": ["store 7 is silent"]})
    with scripted(Script(body=names.encode())) as server:
        asked = source(server.url)
        assert asked.examples() == {}
        assert asked.partial == ("store 7 is silent", "the server says that its answer is partial (isPartial)")
        for server.body, said in (
            (b"<html>a login page</html>", "not a Prometheus: it answers with a web page"),
            (b"[" * 100_000, "not a Prometheus"),
            (b'{"status":"error","error":"boom"}', "answers with an error: boom"),
        ):
            with pytest.raises(SourceUnreachableError, match=said):
                source(server.url).examples()


def test_one_odd_label_leaves_one_series_out() -> None:
    """It is named, and the others are there; a lone half of a surrogate pair is JSON that no other text can hold."""
    now = END.timestamp()
    odd = [({**LAG, "partition": partition}, [[now, "5"]]) for partition in ("²", "99999999999")]
    odd.append(({**LAG, "consumergroup": "\ud83d"}, [[now, "5"]]))
    with scripted(Script(body=body(*odd, (LAG, [[now, "1"]])))) as server:
        found = source(server.url).collect(WINDOW)
    lags = found.series.where(pc.equal(found.series.names["signal"], "consumer_lag")).to_samples()
    assert set(lags["value"].to_pylist()) == {1.0}
    assert len(found.incomplete) == 2
    assert (
        "series of kafka_consumergroup_lag left out: the label partition is not a valid partition"
        in found.incomplete[0]
    )
    assert found.incomplete[0].isascii()
    assert "consumergroup is not a valid text" in found.incomplete[1]


@pytest.mark.parametrize(
    ("script", "named"),
    [
        (
            Script(status=400, body=b'{"status":"error","errorType":"bad_data","error":"parse error: <b>x</b>"}'),
            "parse error",
        ),
        (
            Script(status=422, body=b'{"status":"error","error":"query processing would load too many samples"}'),
            "too many samples",
        ),
        (Script(status=503, body=b'{"status":"error","error":"query timed out"}'), "query timed out"),
        (Script(status=401, body=b"Unauthorized"), "401"),
        (Script(body=b'{"status":"error","error":"execution: boom"}'), "boom"),
        (Script(body=b"<html>a login page</html>"), "not a Prometheus"),
        (Script(body=b'{"status":"success","data":{"resultType":"vector","result":[]}}'), "not a Prometheus"),
    ],
)
def test_an_error_of_the_server_is_told_with_its_own_words(script: Script, named: str) -> None:
    """Exit code 5, the host, and the server's message; no traceback, no markup."""
    script.requests.clear()
    with scripted(script) as server, pytest.raises(SourceUnreachableError) as caught:
        source(server.url).collect(WINDOW)
    assert named in caught.value.message
    assert "127.0.0.1" in caught.value.message


_ERROR = '{"status": "error", "errorType": "%s", "error": "%s"}'


@pytest.mark.parametrize(
    ("status", "answer", "said", "hint"),
    [
        (200, "<html><form action=/login>Sign in</form></html>", "answers with a web page", "login page"),
        (401, "Unauthorized", "wants a login (status 401): Unauthorized", "Authorization"),
        (401, "no org id", "wants a tenant (status 401): no org id", "X-Scope-OrgID"),
        (403, "<html><title>403 Forbidden</title></html>", "forbids this (status 403): 403 Forbidden", "token"),
        (404, "404 page not found", "has no API at this address (status 404)", "/prometheus"),
        (407, "", "behind a proxy", "HTTPS_PROXY"),
        (429, _ERROR % ("too_many_requests", "over the rate limit"), "too many requests (status 429): over", "later"),
        (502, "<html><title>502 Bad Gateway</title>", "proxy in front of it (status 502): 502 Bad Gateway", "running"),
        (503, "no healthy upstream", "proxy in front of it (status 503): no healthy upstream", "running"),
        (503, _ERROR % ("timeout", "query timed out"), "refuses the query (status 503): query timed out", "fewer samples"),
        (422, _ERROR % ("execution", "too many samples"), "refuses the query (status 422): too many samples", "fewer"),
        (400, _ERROR % ("bad_data", "parse error"), "refuses the query (status 400): parse error", "match"),
        (500, _ERROR % ("internal", "boom"), "fails (status 500): boom", "log"),
        (200, _ERROR % ("internal", "upstream gone"), "answers with an error: upstream gone", "log"),
    ],
)  # fmt: skip
def test_what_is_no_data_has_its_own_sentence_and_hint(status: int, answer: str, said: str, hint: str) -> None:
    """Of Prometheus, of a proxy or a login in front of it: a shorter window helps against limits only."""
    with (
        scripted(Script(status=status, body=answer.encode())) as server,
        pytest.raises(SourceUnreachableError) as caught,
    ):
        source(server.url).collect(WINDOW)
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")
    if hint not in ("fewer", "fewer samples", "later"):
        assert "fewer samples" not in (caught.value.hint or "")


def test_a_warning_of_an_empty_answer_is_shown() -> None:
    """Thanos without a store has no series and says so; without its words it would look like a wrong name."""
    with scripted(Script(body=body(warnings=["No StoreAPIs matched for this query"]))) as server:
        cluster = Cluster(name="prod", prometheus=server.url, profiles=["kafka_exporter"])
        with pytest.raises(NoSeriesError, match="It warns: No StoreAPIs matched for this query"):
            collect(cluster, WINDOW, thresholds=Thresholds())


def test_a_query_that_times_out_on_the_server_is_sent_once() -> None:
    """Sending it again and again would load a server that is overloaded already."""
    with scripted(Script(status=503, body=b"{}")) as server, pytest.raises(SourceUnreachableError):
        source(server.url).collect(WINDOW)
    assert [path for path, _, _ in server.requests] == ["/api/v1/read", "/api/v1/query"]


@pytest.mark.parametrize(
    "script", [Script(body=body(), delay_seconds=3.0), Script(body=b" " * 500, trickle_seconds=0.05)]
)
def test_a_hanging_server_is_left_in_time(script: Script) -> None:
    """Also one that sends a byte now and then, which requests' own timeout never notices."""
    with scripted(script) as server, pytest.raises(SourceUnreachableError, match="did not answer within"):
        source(server.url, timeout_seconds=0.5).collect(WINDOW)
    assert len(server.requests) == 1


def test_a_closed_port_and_a_password_in_the_url() -> None:
    """The host is named, the password is not."""
    with pytest.raises(SourceUnreachableError) as caught:
        source("http://admin:hunter2@127.0.0.1:9").collect(WINDOW)
    assert "127.0.0.1:9" in caught.value.message
    assert "hunter2" not in caught.value.message + (caught.value.hint or "")


@pytest.mark.lab
def test_a_prometheus_is_understood_in_its_first_seconds(tmp_path: Path) -> None:
    """Before the minute is full: series are recent when they have a sample, wherever the clock stands, or come minutes late."""
    late = f'{LATE}{{consumer_group_id="pay",topic="orders",partition="3"}} 120 {(time.time() - 400) * 1000:.0f}\n'
    page = (PAGES["kafka_exporter"].lstrip() + late).encode()
    with scripted(Script(body=page, headers={"Content-Type": "text/plain; version=0.0.4"})) as exporter:
        if (second := time.time() % 60) > 35:
            time.sleep(60 - second)  # so that no full minute comes between
        prometheus = start_prometheus(tmp_path / "prometheus")
        try:
            (prometheus.targets / "page.json").write_text(json.dumps([{"targets": [urlsplit(exporter.url).netloc]}]))
            asked = source(prometheus.url)
            deadline = time.monotonic() + 20
            while "kafka_consumergroup_lag" not in asked.names():
                assert time.monotonic() < deadline
                time.sleep(0.2)
            time.sleep(1)
            assert set(asked.examples()) >= {"kafka_consumergroup_lag", "kafka_topic_partition_current_offset"}
            lag = "kafka_consumergroup_lag"
            assert len(asked.recent([lag])[lag]) == 1
            assert asked.recent([LATE])[LATE][0]["consumer_group_id"] == "pay"
            assert sorted(it["partition"] for it in asked.recent([lag], each="partition")[lag]) == ["3", "4"]
        finally:
            prometheus.stop()


def test_the_match_of_the_settings_is_in_every_query() -> None:
    """Values, patterns and their opposites; with stored chunks as well, and when profiles are looked for."""
    with scripted(Script(body=body((LAG, [[END.timestamp(), "1"]])))) as server:
        asked = source(server.url)
        asked.servers[0].match = {"cluster": "prod-eu", "env": "=~prod|live", "team": "!=test"}
        asked.collect(WINDOW, groups=["g"])
        asked.collect(WINDOW)
        asked.examples()
    assert len(asked.servers[0].queries) > 5
    for query in asked.servers[0].queries:
        if query != "label values":
            assert 'cluster="prod-eu",env=~"prod|live",team!="test"' in query
