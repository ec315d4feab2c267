"""What threads measure is recorded from pages as it is read out of a Prometheus: in the group of their process's clients."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Script, scripted
from workbench.collect.capture import read_capture
from workbench.collect.page_history import PageHistory
from workbench.collect.recorder import Recorder
from workbench.collect.samples_from_prometheus import Collected
from workbench.errors import MixedSourcesError, NoSeriesError
from workbench.settings import Cluster

ROUNDS = 6


def page(number: int, *, client: str = "pay-0", calls: int = 10, records: int = 10, pod: str = "") -> bytes:
    """The page of a Spring application after so many rounds: its client has read, and its listener was called."""
    more = f',pod="{pod}"' if pod else ""
    own = f'client_id="{client}"{more}'
    listener = f'name="orders-0",result="success",exception="none"{more}'
    return "\n".join(
        [
            f"kafka_consumer_last_poll_seconds_ago{{{own}}} 0.1",
            f'kafka_consumer_fetch_manager_records_consumed_total{{{own},topic="orders"}} {records * number}',
            f"spring_kafka_listener_seconds_count{{{listener}}} {calls * number}",
            f"spring_kafka_listener_seconds_sum{{{listener}}} {0.02 * calls * number}",
            "",
        ]
    ).encode()


def recorded(folder: Path, *pods: dict[str, Any], profiles: tuple[str, ...] = ("micrometer", "spring_listener")) -> Any:
    """Rows of a recording of such applications, each on a page of its own, whose clients are in the group `pay`."""
    with ExitStack() as stack:
        servers = [stack.enter_context(scripted(Script(body=page(0, **it)))) for it in pods]
        members = {it.get("client", "pay-0"): "pay" for it in pods}
        cluster = Cluster(
            name="c", metrics=[it.url for it in servers], profiles=list(profiles), members=members, timeout_seconds=5
        )
        it = Recorder(cluster, folder, interval_seconds=1)
        for number in range(1, ROUNDS + 1):
            for server, pod in zip(servers, pods, strict=True):
                server.body = page(number, **pod)
            assert it.round() == []
            if number == 1:
                it._begin([])
        it.flush()
        it.close()
    return read_capture(folder).samples.to_pylist()


def times(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], list[float]]:
    """Of each group, member and part of the process times, the values."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row["signal"] == "process_time":
            found.setdefault((row["group"], row["member"], row["stat"]), []).append(row["value"])
    return found


def test_the_only_client_of_a_page_is_the_listeners(tmp_path: Path) -> None:
    """Its times and outcomes are those of that client, each look once."""
    rows = recorded(tmp_path / "a", {})
    assert times(rows) == {
        ("pay", "pay-0", "count"): [10.0 * at for at in range(1, ROUNDS + 1)],
        ("pay", "pay-0", "sum"): pytest.approx([0.2 * at for at in range(1, ROUNDS + 1)]),
    }
    assert {(row["group"], row["member"]) for row in rows if row["signal"] == "processed"} == {("pay", "pay-0")}
    assert len([row for row in rows if row["signal"] == "deserialized"]) == ROUNDS


def test_clients_of_one_name_have_each_their_own_times(tmp_path: Path) -> None:
    """Under the names that the recording has for these clients."""
    rows = recorded(tmp_path / "a", {"pod": "a"}, {"pod": "b", "calls": 20, "records": 20})
    clients = {row["member"] for row in rows if row["signal"] == "deserialized"}
    assert clients == {"pay-0", "pay-0 (b)"}
    last = {member: values[-1] for (_, member, stat), values in times(rows).items() if stat == "count"}
    assert last == {"pay-0": 10.0 * ROUNDS, "pay-0 (b)": 20.0 * ROUNDS}


def test_times_of_batches_are_for_each_record(tmp_path: Path) -> None:
    """A call of 30 records counts as 30, for all of the recording; no single look could tell."""
    found = times(recorded(tmp_path / "a", {"records": 300}))
    count, total = (found["pay", "pay-0", it] for it in ("count", "sum"))
    assert count[-1] - count[0] == 300.0 * (ROUNDS - 1)
    assert total[-1] - total[0] == pytest.approx(0.2 * (ROUNDS - 1))


def test_pages_that_contradict_each_other_cost_no_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is completed with all that single looks told, and says why the threads are missing."""

    def contradicting(_self: PageHistory, *_: object) -> Collected:
        raise MixedSourcesError("Two clusters answer.")

    monkeypatch.setattr(PageHistory, "_collected", contradicting)
    rows = recorded(tmp_path / "a", {})
    assert len([row for row in rows if row["signal"] == "deserialized"]) == ROUNDS
    assert read_capture(tmp_path / "a").info.sources == ["Two clusters answer."]


@pytest.mark.parametrize("profiles", [("micrometer",), ("spring_listener",)])
def test_without_clients_or_threads_nothing_is_guessed(tmp_path: Path, profiles: tuple[str, ...]) -> None:
    """A listener whose clients nobody reads has no group here, and a client alone no times."""
    if profiles == ("micrometer",):
        assert times(recorded(tmp_path / "a", {}, profiles=profiles)) == {}
    else:
        with pytest.raises(NoSeriesError, match="nothing there tells of a group"):
            recorded(tmp_path / "a", {}, profiles=profiles)
