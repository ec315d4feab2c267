"""A fleet whose series lie in two Prometheus: the same findings as out of one, and a slot that lacks a part is known as such."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.fleet_server import _Fleet, serve
from tests.fleet import END
from tests.sweep.test_engine import told
from workbench.cli.triage_all import _store_name, exit_code
from workbench.collect import capture_in_memory
from workbench.errors import ExitCode, NoSeriesError, SourceUnreachableError, UsageError
from workbench.settings import Cluster
from workbench.sweep.fleet_store import FleetStore, StoreInfo, make_store
from workbench.sweep.land_samples import land_missing, wanting
from workbench.sweep.sweep_engine import Sweep, sweep
from workbench.thresholds import Thresholds
from workbench.triage.triage_engine import triage

pytestmark = pytest.mark.jvm
SUBSCRIPTIONS, SLOT_SECONDS = 60, 600  # the eighth is sick, and the 58th


class Shard(_Fleet):
    """A Prometheus with the series of every second group, or of all; the ends of logs are in the first one."""

    def __init__(self, number: int | None) -> None:
        super().__init__(SUBSCRIPTIONS, SLOT_SECONDS, 30)
        self.number = number
        self.is_silent = False

    def series(self, asked: str, end_ms: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Of its part."""
        if self.is_silent:
            raise ConnectionAbortedError
        for at, times, values in super().series(asked, end_ms):
            group = self.names[at].get("consumergroup", "group-000000")
            if self.number in (None, int(group[-6:]) % 2):
                yield at, times, values


@contextmanager
def served(*fleets: Shard) -> Iterator[Cluster]:
    """A cluster with these Prometheus."""
    with ExitStack() as stack:
        urls = []
        for fleet in fleets:
            server = stack.enter_context(serve(fleet, "json"))
            server.handle_error = lambda *_: None  # type: ignore[method-assign] # it is silent
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            stack.callback(server.shutdown)
            urls.append(f"http://127.0.0.1:{server.server_address[1]}")
        values = {"name": "fleet", "prometheus": urls if len(urls) > 1 else urls[0], "profiles": ["kafka_exporter"]}
        yield Cluster.model_validate(values)


def empty(folder: Path, cluster: Cluster) -> FleetStore:
    """A store of this cluster, as `triage --all` makes it."""
    info = StoreInfo(cluster="fleet", slot_seconds=SLOT_SECONDS, profiles=["kafka_exporter"], parts=cluster.parts)
    return make_store(folder, info)


def land(store: FleetStore, cluster: Cluster) -> None:
    """Land what is wanting."""
    land_missing(store, store.window_ending(END), lambda slot: capture_in_memory.collect_series(cluster, slot))


def landed(store: FleetStore, cluster: Cluster, spark: Any) -> Sweep:
    """Land it, and judge."""
    land(store, cluster)
    return sweep(store, spark, top=5)


def rows(found: Sweep) -> list[dict[str, Any]]:
    """The table, by name."""
    return sorted(found.table.to_pylist(), key=lambda row: (row["group"], row["topic"]))


@pytest.fixture(scope="module")
def whole(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """What one Prometheus with all series leads to."""
    with served(Shard(None)) as cluster:
        found = landed(empty(tmp_path_factory.mktemp("whole") / "store", cluster), cluster, spark)
    assert len(found.findings) == 2
    return found


def test_two_shards_are_judged_like_one_prometheus_and_a_silent_one_is_asked_again(
    spark: Any, tmp_path: Path, whole: Sweep, small: None
) -> None:
    """To the last finding; and while one is silent, nothing is well that nobody has seen."""
    even, odd = Shard(0), Shard(1)
    odd.is_silent = True
    with served(even, odd) as cluster:
        store = empty(tmp_path / "shards", cluster)
        half = landed(store, cluster, spark)
        assert {row["group"] for row in rows(half)} == {f"group-{number:06}" for number in range(0, SUBSCRIPTIONS, 2)}
        assert wanting(store, store.window_ending(END)) == store.slots_of(store.window_ending(END))
        name = cluster.prometheus_servers[1].host
        assert len(half.partial) == 5
        assert all(f"Prometheus at {name}" in text for text in half.partial)
        assert exit_code(half) != ExitCode.OK
        window = store.window_ending(END)
        asked = capture_in_memory.collect(
            cluster, window, thresholds=Thresholds(), groups=["group-000001"]
        )  # these answer with others, too
        with pytest.raises(NoSeriesError, match=f"'group-000001'.*Incomplete: Prometheus at {name}"):
            triage(asked, spark, groups=["group-000001"])
        even.number = 2  # none: all that answers has no group
        nothing = empty(tmp_path / "nothing", cluster)
        with pytest.raises(SourceUnreachableError, match=f"{name}.*have no series of any consumer group"):
            land(nothing, cluster)
        even.number, odd.is_silent = 0, False
        both = landed(store, cluster, spark)
        assert (both.partial, wanting(store, store.window_ending(END))) == ((), [])
        assert rows(both) == rows(whole)
        assert [told(it) for it in both.findings] == [told(it) for it in whole.findings]
        even.is_silent = odd.is_silent = True
        land(store, cluster)  # what is whole is not asked for again
        with pytest.raises(SourceUnreachableError):
            land(empty(tmp_path / "nobody", cluster), cluster)


def test_a_pair_is_judged_like_one_prometheus(spark: Any, tmp_path: Path, whole: Sweep, small: None) -> None:
    """Both have everything; a sample counts once."""
    with served(Shard(None), Shard(None)) as cluster:
        pair = landed(empty(tmp_path / "pair", cluster), cluster, spark)
    assert rows(pair) == rows(whole)
    assert [told(it) for it in pair.findings] == [told(it) for it in whole.findings]


def test_a_store_of_one_is_none_of_two(tmp_path: Path) -> None:
    """Its whole slots lack what the second one has; the order of the addresses does not matter, and old stores stay valid."""
    one = Cluster(name="fleet", prometheus="http://user:hunter2@a:9090", profiles=["kafka_exporter"])
    both = Cluster.model_validate({"name": "fleet", "prometheus": ["http://user:hunter2@a:9090", "http://b/mimir"]})
    turned = Cluster.model_validate({"name": "fleet", "prometheus": ["http://b/mimir", "http://a:9090"]})
    empty(tmp_path / "one", one)
    assert "parts" not in (tmp_path / "one" / "store.json").read_text()
    with pytest.raises(UsageError, match="is a store of one Prometheus, not of a:9090 and b/mimir") as caught:
        empty(tmp_path / "one", both)
    empty(tmp_path / "both", both)
    empty(tmp_path / "both", turned)
    assert "hunter2" not in (tmp_path / "both" / "store.json").read_text() + caught.value.message
    narrow = Cluster.model_validate({"name": "fleet", "prometheus": [{"url": "http://a:9090", "match": {"k": "v"}}]})
    assert narrow.parts == ['a:9090 {"k": "v"}']
    same = Cluster.model_validate({"name": "c", "prometheus": ["http://a:9090"], "match": {"k": "v"}})
    assert same.parts == []
    # Stores that have no name of their own: that of one Prometheus stays where it was.
    assert _store_name(one, 900) == "fleet"
    assert len({_store_name(it, 900) for it in (one, both, narrow)}) == 3
    assert _store_name(both, 900) == _store_name(turned, 900)
