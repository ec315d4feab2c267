"""What metrics pages show, as a Prometheus that scrapes them would tell it."""

from __future__ import annotations

import pytest

from tests.servers import Script, scripted
from workbench.collect.page_metrics import PageMetrics
from workbench.errors import SourceUnreachableError, UsageError
from workbench.profiles import load_profile
from workbench.window import parse_instant

NOBODY = "http://127.0.0.1:9/metrics"
PAGE = (
    b"# TYPE acme_done counter\n"
    b'acme_done_total{job="a",kind="x"} 1\nacme_done_total{job="a",kind="y"} 1\nacme_done_total{job="b",kind="x"} 1\n'
    b"kafka_consumer_last_poll_seconds_ago 0.1\n"
    b'kafka_consumer_last_poll_seconds_ago{client_id="c"} 0.1\n'
)


def test_names_series_and_examples_are_those_of_the_page() -> None:
    """Each read once; so many series of a name, or of each value of a label; the address is a label as Prometheus adds it."""
    with scripted(Script(body=PAGE)) as server:
        page = PageMetrics(urls=[server.url], profiles=[load_profile("micrometer")])
        assert page.names() == {"acme_done_total", "kafka_consumer_last_poll_seconds_ago"}
        assert [it["kind"] for it in page.recent(["acme_done_total", "other"])["acme_done_total"]] == ["x"]
        by_job = page.recent(["acme_done_total"], each="job")["acme_done_total"]
        assert [(it["job"], it["kind"]) for it in by_job] == [("a", "x"), ("b", "x")]
        [example] = page.examples().values()
        assert example == {
            "__name__": "kafka_consumer_last_poll_seconds_ago",
            "client_id": "c",
            "instance": server.url.removeprefix("http://"),
        }
        assert len(server.requests) == 1
        with pytest.raises(UsageError, match="no past moment"):
            page.names(at=parse_instant("1h ago"))


def test_a_silent_page_is_named_and_all_of_them_are_an_error() -> None:
    """The others count; a page that is none is as good as silent."""
    with scripted(Script(body=PAGE)) as server:
        page = PageMetrics(urls=[server.url, NOBODY])
        assert "acme_done_total" in page.names()
        assert page.partial == page.silent == ("127.0.0.1:9: connection refused",)
    with scripted(Script(body=b"<html>sign in</html>")) as server, pytest.raises(SourceUnreachableError) as caught:
        PageMetrics(urls=[server.url, NOBODY]).names()
    assert "is not a metrics page" in caught.value.message
    assert "connection refused" in caught.value.message
