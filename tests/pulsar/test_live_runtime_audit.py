"""The runtime on a real Pulsar tells an audit what it does: after kills, moved topics and parts of batches, the ledger is the truth."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.audit.pipeline import named_by
from tests.cli.running import run_here
from tests.pulsar.test_live_runtime import Members, Orders
from tests.reference.valid import valid
from tests.waiting import wait_for
from workbench.api import compare_and_trace_records
from workbench.api.audit_silence import rows_before
from workbench.api.audits import audit
from workbench.lab.pulsar import PulsarStandalone
from workbench.layers.record_marks import hash_of
from workbench.layers.rows import AuditRow, Point, WindowCount, signed
from workbench.runtime import Runtime, RuntimeConfig, running
from workbench.settings import load_settings

if TYPE_CHECKING:
    import pulsar

pytestmark = [pytest.mark.lab, pytest.mark.jvm, pytest.mark.slow]

COUNT, ROWS, MINUTE = 3_000, "public/default/audit-rows", 60_000
HANDLERS = """
import json, os, time
from workbench.runtime import Dead, Done, Skip, processor
file = os.open(os.environ["HANDLED"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)

@processor("*")
def handle(event):
    time.sleep(0.002)
    number = int(event.payload)
    os.write(file, (json.dumps([number, os.getpid()]) + "\\n").encode())
    return Dead("unfit") if number % 70 == 1 else Skip() if number % 50 == 0 else Done()
"""


@pytest.fixture(scope="module")
def settings(standalone: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cluster, and the audit."""
    file = tmp_path_factory.mktemp("settings") / "workbench.toml"
    file.write_text(
        f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{standalone.admin_url}"\n'
        f'service_url = "{standalone.service_url}"\n'
        f'[audits.orders]\ncluster = "events"\ntopic = "{ROWS}"\nlayers = ["gateway", "collector", "sink"]\nlateness = "1m"\n'
    )
    return file


@pytest.fixture(scope="module")
def told(
    standalone: PulsarStandalone, client: pulsar.Client, settings: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Three thousand messages in batches, handled by members of which three are killed, while the topic is moved twice."""
    orders, folder = Orders(standalone, client), tmp_path_factory.mktemp("members")
    now = round(time.time() * 1000) // MINUTE * MINUTE - 10 * MINUTE
    producer = client.create_producer(
        f"persistent://{orders.name}", batching_enabled=True, batching_max_messages=17, block_if_queue_full=True
    )
    failed: list[Any] = []
    for number in range(COUNT):
        own = {"wb-id": f"order-{number}", "wb-ctime": str(now + number % 5 * MINUTE)}
        told = lambda result, _: failed.append(result) if result.name != "Ok" else None  # noqa: E731
        producer.send_async(b"%d" % number, told, partition_key=f"k{number % 40}", properties=own)
    producer.flush()
    producer.close()
    assert failed == []
    members = Members(folder, orders)
    (folder / "handlers_of_orders.py").write_text(HANDLERS, encoding="utf-8")
    more = {
        "audit.topic": ROWS, "audit.stream": "orders", "audit.layer": "collector", "dead_letter_topic": "public/default/dead-orders",
        "default_processor.max_attempts": 1,
    }  # fmt: skip

    def handled() -> list[list[int]]:
        return [json.loads(line) for line in members.file.read_text().splitlines() if line]

    try:
        for turn, kill in enumerate((signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)):
            before = len(handled())
            child = members.start(f"m{turn}", **more)
            wait_for(lambda at=before: len(handled()) > at + 400, seconds=120)  # type: ignore[misc]
            if turn in (1, 2):
                orders.admin("PUT", "/unload", partition=turn)
                before = len(handled())
                wait_for(lambda at=before: len(handled()) > at + 100, seconds=120)  # type: ignore[misc]
            if turn < 3:
                child.send_signal(kill)
                child.wait(30)
        wait_for(lambda: len({it[0] for it in handled()}) == COUNT and orders.backlog() == 0, seconds=300)
        time.sleep(1)
    finally:
        members.stop()
    yield orders, now, handled()


def test_an_idle_topic_that_is_moved_has_no_gap(
    standalone: PulsarStandalone, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows lie end to end over ledgers and tasks, each with a larger number; who waits tells that it lives, also after a move."""
    import pulsar as library

    monkeypatch.setattr("workbench.runtime.audit_rows_of_task.HEARTBEAT_SECONDS", 1.0)
    orders, topic = Orders(standalone, client, partitions=0), "public/default/idle-rows"
    orders.produce(0, 25)
    reader = client.subscribe(topic, "look", initial_position=library.InitialPosition.Earliest)
    config = RuntimeConfig.parse(orders.config(audit={"topic": topic, "layer": "collector"}))
    rows: list[dict[str, Any]] = []

    def told(count: int, *, beats_since: float = 0.0) -> bool:
        with suppress(library.Timeout):
            text = json.loads(reader.receive(timeout_millis=100).data())
            rows.extend(text if isinstance(text, list) else [text])  # numbers that tasks take are there, too
        mine = [it for it in rows if it.get("point") == "in"]
        beats = [it for it in mine if it["start"] == it["stop"] and it["emitted_ms"] > beats_since * 1000]
        return sum(part["count"] for it in mine for part in it["windows"]) == count and bool(beats)

    for first in (25, 35):
        with running(Runtime(config, {"*": lambda _event: None})):
            began = time.time()
            wait_for(lambda count=first, at=began: told(count, beats_since=at), seconds=60)  # type: ignore[misc]
            orders.admin("PUT", "/unload")
            moved = time.time()
            wait_for(lambda count=first, at=moved: told(count, beats_since=at + 1), seconds=60)  # type: ignore[misc]
            orders.produce(first, first + 10)
            wait_for(lambda count=first + 10: told(count), seconds=60)  # type: ignore[misc]
    mine = [it for it in rows if it.get("point") == "in" and it["emitted_ms"]]
    assert sum(it["schema"] == "workbench.audit-claim/1" for it in rows) == len({it["incarnation"] for it in mine}) == 4
    assert [it["incarnation"] for it in mine] == sorted(it["incarnation"] for it in mine)
    assert all(after["start"] == before["stop"] for before, after in pairwise(mine))
    assert {it["partition"] for it in mine} == {0}


def row_of(
    layer: str, point: Point, part: tuple[str, int], span: tuple[int, int], ids: list[bytes], now: int
) -> AuditRow:
    """A row of another layer about all of a partition."""
    windows: dict[int, list[bytes]] = {}
    for it in ids:
        windows.setdefault(now + int(it.split(b"-")[1]) % 5 * MINUTE, []).append(it)
    return AuditRow(
        stream="orders", layer=layer, point=point, topic=part[0], partition=part[1], start=span[0], stop=span[1], incarnation=1,
        sequence=1, emitted_ms=now + 8 * MINUTE,
        windows=[WindowCount(start_ms=at, count=len(some), sum=signed(sum(map(hash_of, some)))) for at, some in windows.items()],
    )  # fmt: skip


def test_the_ledger_is_the_truth_of_killed_members(
    told: Any, settings: Path, client: pulsar.Client, tmp_path: Path
) -> None:
    """What was handled, left out and given up is counted once each, exactly; what a layer behind it has lost is named by commands."""
    orders, now, handled = told
    assert len(handled) > COUNT  # kills: some were handled again
    assert len({it[1] for it in handled}) == 4
    cluster = load_settings(settings).cluster("events")
    whole = compare_and_trace_records.whole_topic(cluster, orders.name)
    spark = compare_and_trace_records.session_for_audits(1)
    records = compare_and_trace_records.records_of(spark, cluster, {part: [span] for part, span in whole.items()})
    by_hash = {hash_of(b"order-%d" % it): it for it in range(COUNT)}
    lost = {7, 1_204, 2_999}  # the last one is the last of its partition
    lost_at = set()
    producer = client.create_producer(f"persistent://{ROWS}")
    rows = []
    for part, some in records.items():
        numbers = [by_hash[it["hash"]] for it in some]
        lost_at |= {(part[1], it["offset"]) for it in some if by_hash[it["hash"]] in lost}
        every = [b"order-%d" % it for it in numbers]
        given = [b"order-%d" % it for it in numbers if it % 70 != 1 and it % 50]
        kept = [b"order-%d" % it for it in numbers if it % 70 != 1 and it % 50 and it not in lost]
        rows.append(row_of("gateway", "out", part, whole[part], every, now))
        rows.append(row_of("sink", "in", part, whole[part], given, now))
        rows.append(row_of("sink", "out", part, whole[part], kept, now))
    for it in rows:
        producer.send(it.line().encode())
    # The collector tells of no later time by itself: what comes next is as much later.
    later = round(time.time() * 1000)
    for number, layer in ((1, "gateway"), (1, "sink")):
        for it in [it for it in rows if it.layer == layer]:
            beat = it.model_copy(update={"start": it.stop, "windows": [], "emitted_ms": later, "sequence": number + 1})
            producer.send(beat.line().encode())
    producer.close()

    ledger = audit(name="orders", config=settings)
    sums: dict[str, Counter[str]] = {}
    for row in ledger.rows(stream="orders"):
        mine = sums.setdefault(row["edge"], Counter())
        for side in ("from", "to", "lost", "doubled"):
            assert row[f"{side}_low"] == row[f"{side}_high"], row.asDict()
            mine[side] += row[f"{side}_low"]
        assert row["gap"] == 0, row.asDict()
        assert row["same"] is not False or row["edge"] == "sink", row.asDict()
    dead, skipped = sum(it % 70 == 1 for it in range(COUNT)), sum(it % 50 == 0 for it in range(COUNT))
    none = {"lost": 0, "doubled": 0}
    assert sums["gateway → collector"] == {"from": COUNT, "to": COUNT, **none}
    assert sums["collector"] == {"from": COUNT, "to": COUNT, **none}
    outs = ledger.source.where("layer = 'collector' AND windows IS NOT NULL")
    assert outs.where("point = 'dead'").count() > 0 and outs.where("point = 'rejected'").count() > 0
    assert sums["collector → sink"]["to"] == COUNT - dead - skipped == sums["collector → sink"]["from"]
    assert sums["sink"]["lost"] == len(lost)

    def ask(*words: str) -> Any:
        return run_here("audit", *words, "--config", str(settings), cwd=tmp_path)

    made = ask("missing", "orders", "--stream", "orders", "--layer", "sink", "-o", "missing.json")
    found = valid("audit-missing", json.loads((tmp_path / "missing.json").read_text()))
    assert (named_by(found), found["unnamed"], made.returncode) == (lost_at, 0, 3), made.stdout + made.stderr
    ran = ask("run", "orders", "-o", "ledger", "--json")
    assert valid("audit-run", json.loads(ran.stdout))["windows"].get("unknown", 0) == 0
    since = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(now / 1000))
    until = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(now / 1000 + 300))
    gate = ask("gate", "orders", "--stream", "orders", "--since", since, "--until", until, "--json")
    assert json.loads(gate.stdout)["lost"] == len(lost), gate.stdout + gate.stderr
    published = ask("publish", "orders", "--since", "1h ago", "--output", "out", "--json")
    [stream] = valid("audit-state", json.loads(published.stdout))["streams"]
    assert {it["edge"]: it["lost"] + it["late"] for it in stream["edges"]}["sink"] == len(lost), published.stdout
    # All rows lie before what is read here, and each layer is seen there.
    later_on = audit(name="orders", config=settings, since_ms=round(time.time() * 1000) + MINUTE)
    assert set(rows_before(later_on, later_on.last_told()).told_ms) == {
        ("orders", it) for it in ("gateway", "collector", "sink")
    }
    repair(orders, found, settings, tmp_path)
    after = [row for row in audit(name="orders", config=settings).rows(stream="orders") if row["edge"] == "sink"]
    assert sum(row["lost_high"] + row["doubled_high"] for row in after) == 0
    lossy = {now + it % 5 * MINUTE for it in lost}
    assert {(row["arrival"], row["state"], row["same"]) for row in after if row["window_ms"] in lossy} == {
        ("ok", "amended", True)
    }
    again = ask("missing", "orders", "--stream", "orders", "--layer", "sink", "-o", "again.json")
    assert (again.returncode, json.loads((tmp_path / "again.json").read_text())["records"]) == (0, 0), again.stdout


def repair(orders: Orders, missing: dict[str, Any], settings: Path, folder: Path) -> None:
    """Plan the missing messages, apply the plan, and have a runtime handle just them with the new subscription."""
    place = ("--cluster", "events", "--config", str(settings))
    words = ("--from-group", f"billing@{orders.name}", "--new-group", "repair", "--from-audit", "missing.json")
    planned = run_here("replay", "plan", *place, *words, "-o", "plan.json", cwd=folder)
    assert planned.returncode == 0, planned.stderr
    plan = json.loads((folder / "plan.json").read_text())
    applied = run_here("replay", "apply", "plan.json", *place, "--confirm", plan["hash"], cwd=folder)
    assert applied.returncode == 0, applied.stderr
    values = {
        "system": "pulsar", "bootstrap": load_settings(settings).cluster("events").pulsar.service_url, "group": "repair",
        "topics": [orders.name], "commit_interval_seconds": 0.2,
        "ranges": {orders.name: {it["partition"]: [tuple(span) for span in it["ranges"]] for it in missing["partitions"]}},
        "audit": {"topic": ROWS, "stream": "orders", "layer": "sink"},
    }  # fmt: skip
    handled: list[int] = []
    Runtime(RuntimeConfig.parse(values), {"*": lambda event: handled.append(int(event.payload))}).run()
    assert sorted(handled) == [7, 1_204, 2_999]
    verified = run_here("replay", "verify", "plan.json", *place, cwd=folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr
