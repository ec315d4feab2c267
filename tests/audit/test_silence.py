"""Who has fallen silent is named, also if all of its rows lie before the period; what cannot be seen is said."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from tests.audit.pipeline import run
from tests.cli.running import run_here
from tests.reference.valid import valid
from workbench import api
from workbench.api.compare_and_trace_records import looks
from workbench.humanize import iso_instant
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.layers.rows import AuditRow, WindowCount

HOUR, MINUTE = 3_600_000, 60_000
LAYERS = ("gateway", "collector")


@given(st.integers(1, 10**9), st.integers(0, 10**12), st.integers(1, 10**9), st.data())
def test_who_lived_twice_as_long_as_it_is_silent_is_seen_by_few_looks(
    length: int, oldest: int, more: int, data: st.DataObject
) -> None:
    """Whoever wrote a row in each time of that length is in a look, if it lived from the oldest row on, or for as long as it has been
    silent since and two such lengths."""
    before = oldest + more
    found = looks(before, oldest, length)
    assert len(found) <= 2 + (more // length).bit_length()
    assert all(oldest <= start < stop <= before and stop - start <= length for start, stop in found)
    end = data.draw(st.integers(min(oldest + length, before), before))
    begin = data.draw(st.sampled_from([oldest, max(oldest, end - max(before - end, length) - 2 * length)]))
    assert any(begin <= start and stop <= end for start, stop in found) or end - begin < length
    assert looks(before, before, length) == []


def heartbeat(stream: str, layer: str, at_ms: int, *, minute: bool) -> AuditRow:
    """A minute with one record, or a sign of life."""
    number = at_ms // MINUTE
    windows = [WindowCount(start_ms=at_ms - 2 * MINUTE, count=1)] if minute else []
    return AuditRow(
        stream=stream, layer=layer, point="out" if layer == LAYERS[0] else "in", topic="t", partition=0, start=number,
        stop=number + minute, incarnation=1, sequence=number, emitted_ms=at_ms, windows=windows,
    )  # fmt: skip


@pytest.mark.lab
@pytest.mark.jvm
@pytest.mark.parametrize("order", ["in_order", "ahead", "late"])
def test_streams_and_layers_whose_rows_lie_before_the_period_are_named_as_silent(
    lab: Lab, tmp_path: Path, order: str
) -> None:
    """Of two streams and a layer that fell silent days and hours ago, the last rows that were seen are told; who lives, or has ended on
    purpose, is not named; and only a small part of the rows is read.

    Kafka finds the first record at or after a time: also where an early one is dated ahead, or each came a while after a later one."""
    topic = f"rows-{os.getpid()}-{order}"
    create_topic(lab.bootstrap, topic, 2)
    now = round(time.time() * 1000) // MINUTE * MINUTE
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    end_of = {
        ("alive", "gateway"): 0, ("alive", "collector"): 0,
        ("gone", "gateway"): 30, ("gone", "collector"): 30,
        ("half", "gateway"): 0, ("half", "collector"): 9,
        ("retired", "gateway"): 40, ("retired", "collector"): 40,
    }  # fmt: skip
    rows = [
        heartbeat(stream, layer, at, minute=True)
        for (stream, layer), hours in end_of.items()
        for at in range(now - 48 * HOUR, now - hours * HOUR + 1, 5 * MINUTE)
    ]
    rows.append(heartbeat("other", "elsewhere", now - 47 * HOUR, minute=False))  # of another pipeline
    shift = {"late": lambda row: HOUR // 4 * (row.stream == "gone")}.get(order, lambda _row: 0)
    for number, row in enumerate(sorted(rows, key=lambda it: it.emitted_ms + shift(it))):
        if order == "ahead" and number in (40, 41):  # of a layer whose clock is ahead by more than a day
            producer.produce(topic, b"{}", timestamp=now - 7 * HOUR, partition=number % 2)
        producer.produce(topic, row.line().encode(), timestamp=row.emitted_ms, partition=number % 2)
    assert producer.flush(20) == 0
    settings = tmp_path / "workbench.toml"
    settings.write_text(
        f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\n'
        f'[audits.orders]\ncluster = "prod"\ntopic = "{topic}"\nlayers = ["gateway", "collector"]\nended = ["retired"]\n'
    )
    words = ("orders", "--config", str(settings))
    shown = run_here("audit", "publish", *words, "--since", "6h ago", "--output", "out", "--json", cwd=tmp_path)
    assert shown.returncode == 4, shown.stderr
    state = valid("audit-state", json.loads(shown.stdout))
    silent = {(it["stream"], part["layer"]): part for it in state["streams"] for part in it["silent"]}
    assert silent.keys() == {("gone", "gateway"), ("gone", "collector"), ("half", "collector")}
    for place, it in silent.items():
        ago = (now / 1000 - time_of(it["told"])) / 3600
        true = end_of[place]
        # Looks lie twice as far back each: what is told lies no more than as far again.
        assert true <= ago <= 2 * true - 6 + 1, (place, ago)
        assert it["seconds"] >= 6 * 3600 - 60
    assert abs(time_of(state["reaches_to"]) * 1000 - (now - 48 * HOUR)) <= 5 * MINUTE
    assert {it["stream"] for it in state["streams"]} == {"alive", "gone", "half"}

    begun = now - 6 * HOUR - 10 * MINUTE
    read = sum(stop - start for start, stop in looks(begun, now - 48 * HOUR, 10 * MINUTE))
    assert read < (begun - (now - 48 * HOUR)) / 20  # of two days

    whole = run_here("audit", "show", *words, "--json", cwd=tmp_path)  # all rows are read: it is known to the row
    found = valid("audit-windows", json.loads(whole.stdout))
    exact = {(it["stream"], it["layer"]): (now / 1000 - time_of(it["told"])) / 3600 for it in found["silent"]}
    assert exact == {place: float(end_of[place]) for place in silent}
    assert whole.returncode == 4


@pytest.mark.lab
@pytest.mark.jvm
def test_a_partition_that_stands_since_before_the_period_is_behind_and_has_lost_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    """Its rows lie before those that a gate reads, and others tell on: the job waits, and is not told of a loss."""
    now = round(time.time() * 1000) // MINUTE * MINUTE
    begin = now - 5 * HOUR
    for stands, code in ((True, 4), (False, 0)):
        topic = f"stands-{os.getpid()}-{stands}"
        create_topic(lab.bootstrap, topic, 2)
        producer = Producer({"bootstrap.servers": lab.bootstrap})
        for minute in range(240):
            at = begin + minute * MINUTE
            logs = [("gateway", 0, 2)] + [("collector", it, 1) for it in (0, 1) if not it or not stands or minute < 60]
            for layer, partition, count in logs:
                for point in ("out",) if layer == "gateway" else ("in", "out"):
                    row = AuditRow(
                        stream="s", layer=layer, point=point, topic="t", partition=partition, start=minute * count,
                        stop=(minute + 1) * count, incarnation=1, sequence=minute, emitted_ms=at + 30_000,
                        windows=[WindowCount(start_ms=at, count=count)],
                    )  # fmt: skip
                    producer.produce(topic, row.line().encode(), timestamp=row.emitted_ms, partition=minute % 2)
        assert producer.flush(20) == 0
        of = ("--cluster", "prod", "--topic", topic, "--layers", ",".join(LAYERS), "--stream", "s", "--json")
        (tmp_path / "workbench.toml").write_text(f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\n')
        span = ("--since", iso_instant(begin + 2 * HOUR), "--until", iso_instant(begin + 2 * HOUR + 10 * MINUTE))
        told = run_here("audit", "gate", *of, *span, "--config", "workbench.toml", cwd=tmp_path)
        assert told.returncode == code, (told.stdout, told.stderr)
        found = valid("audit-gate", json.loads(told.stdout))
        assert found["passage"] == ("wait" if stands else "pass"), found


def time_of(text: str) -> float:
    """Seconds since the epoch."""
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


@pytest.mark.jvm
@pytest.mark.parametrize("silent", [True, False])
def test_show_and_run_name_who_is_silent_while_others_tell(tmp_path: Path, silent: bool) -> None:
    """Of rows in a folder, as of the latest row: everything has arrived, and yet it is not well."""
    rows = run(12).rows
    others = [it.model_copy(update={"stream": "loud"}) for it in rows]
    late = [it.model_copy(update={"emitted_ms": it.emitted_ms + 11 * MINUTE}) for it in others] if silent else []
    lines = "".join(f"{it.line()}\n" for it in (*rows, *others, *late))
    (tmp_path / "rows.jsonl").write_text(lines, encoding="utf-8")
    common = ("--rows", "rows.jsonl", "--layers", "gateway,collector")

    def ask(*words: str) -> Any:
        return run_here("audit", *words, *common, cwd=tmp_path)

    shown, made = ask("show"), ask("run", "-o", "ledger", "--json")
    assert (shown.returncode, made.returncode) == ((4, 4) if silent else (0, 0)), shown.stdout + shown.stderr
    named = f"s  {'; '.join(f'{it} is silent (last row 1970-01-01 00:20:00Z)' for it in sorted(LAYERS))}"
    assert (named in shown.stdout) is silent
    assert ("Everything arrived" in shown.stdout + shown.stderr) is not silent
    assert "The oldest rows are of 1970-01-01T00:00:01" in shown.stderr
    assert len(valid("audit-run", json.loads(made.stdout))["silent"]) == 2 * silent


@pytest.mark.jvm
def test_the_end_of_a_stream_may_be_on_purpose(tmp_path: Path) -> None:
    """The settings say so, and then it is not expected either."""
    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in run(12).rows), encoding="utf-8")
    settings = tmp_path / "workbench.toml"
    for more, silent in (("", ["s"]), ('ended = ["s"]', [])):
        settings.write_text(
            f'[audits.orders]\nrows = "{tmp_path}/rows.jsonl"\nlayers = ["gateway", "collector"]\ngrades = {{ s = "S0" }}\n{more}\n'
        )
        state = api.audit_state("orders", since="1970-01-01T00:00:00Z", until="1970-01-01T00:40:00Z", config=settings)
        assert [it.stream for it in state.streams if it.silent] == silent
        assert state.unseen.startswith("Of streams that fell silent before 1970-01-01 00:00:0")
