"""The sweep: the same findings as one triage after the other, and nothing is read twice."""

from __future__ import annotations

import io
import json
import math
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evaluation.stories import END as STORY_END
from tests.fleet import END, KINDS, land_fleet, slot_series
from tests.reference.valid import valid
from tests.triage.test_incidents import TRUTH, shifted
from workbench.cli.triage_all import exit_code
from workbench.collect.capture import Capture, new_info
from workbench.errors import DamagedCaptureError, ExitCode, NoSeriesError
from workbench.lab.lab import LAB_THRESHOLDS
from workbench.samples import SampleBatch, SeriesTable, concat_series
from workbench.sweep import condense_store
from workbench.sweep.condense_store import condense_missing
from workbench.sweep.fleet_store import FleetStore, StoreInfo, make_store
from workbench.sweep.sweep_engine import Sweep, sweep
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import triage

pytestmark = pytest.mark.jvm
SICK = (7, 57, 107, 157)  # one of each kind


def told(finding: Finding) -> Any:
    """A finding as JSON, with numbers to nine digits: sums of doubles differ in the last ones by their order."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return 0.0 if abs(value) < 1e-6 else float(f"{value:.9g}") if math.isfinite(value) else value
        if isinstance(value, dict):
            return {name: rounded(item) for name, item in value.items()}
        return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value

    return rounded(json.loads(json.dumps(finding.to_json())))


def capture_of(store: FleetStore, samples: pa.Table) -> Capture:
    """The same samples, as a capture has them."""
    info = store.info
    head = new_info(
        cluster=info.cluster,
        source=info.source,
        profiles=info.profiles,
        window=store.window(),
        thresholds=info.thresholds,
    )
    return Capture(info=head, samples=samples)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> FleetStore:
    """Two hundred subscriptions, four of them sick."""
    return land_fleet(tmp_path_factory.mktemp("fleet") / "store", subscriptions=200, slot_seconds=600)


@pytest.fixture(scope="module")
def screened(spark: Any, fleet: FleetStore) -> Sweep:
    """The same, judged as a large one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("workbench.sweep.sweep_engine.SMALL_SAMPLES", 0)
        return sweep(fleet, spark, top=3)


def test_findings_are_those_of_triage_one_by_one(spark: Any, fleet: FleetStore, screened: Sweep) -> None:
    """Sick ones with their onset, actions and all; a healthy one by its verdict and numbers. No more of them than asked for."""
    swept = screened
    document = swept.to_json()
    valid("sweep", document)
    assert [row["group"] for row in document["unwell"]][:3] == [it.group for it in swept.findings]
    assert len(document["unwell"]) == len(SICK) == len(KINDS)
    assert (document["subscriptions"], sum(document["verdicts"].values())) == (200, 200)
    json.dumps(document, allow_nan=False, default=str)
    found = {finding.group: finding for finding in swept.findings}
    assert {int(row["group"][-6:]) for row in document["unwell"]} == set(SICK)
    for number in (*(int(name[-6:]) for name in found), 8):
        group, topic = f"group-{number:06}", f"topic-{number // 4:06}"
        alone = capture_of(fleet, fleet.samples_of(fleet.window(), [(group, topic)]))
        [finding] = triage(alone, spark, groups=[group], topics=[topic]).findings
        if group in found:
            assert told(found[group]) == told(finding)
        [row] = swept.table.filter(pc.equal(swept.table["group"], group)).to_pylist()
        assert (row["verdict"], row["state"]) == (str(finding.verdict), str(finding.state))
        assert row["time_lag_seconds"] == pytest.approx(finding.time_lag.seconds, abs=1e-6)
        assert (row["lag_messages"], row["time_lag_method"]) == (finding.lag_messages, finding.time_lag.method)


def test_a_small_fleet_is_judged_at_once_and_alike(
    spark: Any, fleet: FleetStore, screened: Sweep, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No summaries are made, each file is read once, and every row and every finding is that of a large fleet."""
    monkeypatch.setattr("workbench.sweep.sweep_engine.condense_missing", None)
    at_once = sweep(fleet, spark, top=3)
    rows, others = ({(row["group"], row["topic"]): row for row in it.table.to_pylist()} for it in (at_once, screened))
    assert rows.keys() == others.keys()
    for key, row in rows.items():
        assert (row["verdict"], row["state"], row["lag_messages"]) == tuple(
            others[key][name] for name in ("verdict", "state", "lag_messages")
        )
    assert [told(it) for it in at_once.findings] == [told(it) for it in screened.findings]
    assert (at_once.reading.files, at_once.reading.condensed) == (5, 5)
    assert at_once.reading.samples_read == sum(fleet.rows_of(end) for end in fleet.landed())


def test_a_file_of_a_small_fleet_that_was_changed_is_refused(spark: Any, tmp_path: Path, small: None) -> None:
    """By its digest, as for a large one."""
    store = land_fleet(tmp_path / "store", subscriptions=4, slot_seconds=600)
    [file] = store.files([END])
    data = bytearray(file.path.read_bytes())
    data[len(data) // 2] ^= 1
    file.path.write_bytes(data)
    with pytest.raises(DamagedCaptureError, match="has changed since it was landed"):
        sweep(store, spark)


def test_recorded_incidents_are_found_by_a_sweep(spark: Any, tmp_path: Path) -> None:
    """Every fault of the lab, with all that the runtime exports, landed in slots: the verdicts that one triage of them gives."""
    samples = pa.concat_tables([shifted(name) for name in TRUTH])
    info = StoreInfo(cluster="lab", slot_seconds=12, profiles=["kafka_exporter", "runtime"], thresholds=LAB_THRESHOLDS)
    store = make_store(tmp_path / "store", info)
    for end in store.slots_of(store.window_ending(STORY_END)):
        store.land(end, SeriesTable.of_samples(samples))
    swept = sweep(store, spark, top=len(TRUTH))
    # The sample at the very beginning of the baseline is another slot's.
    since = pc.greater(samples["ts"], pa.scalar(store.window().baseline_start))
    together = triage(capture_of(store, samples.filter(since)), spark)
    assert {told(it)["group"]: told(it) for it in swept.findings} == {
        it.group: told(it) for it in together.findings if it.state != "healthy"
    }
    assert swept.table.num_rows == len(together.findings)


@pytest.mark.parametrize("most", [0, 1_000_000])
def test_what_waits_before_kafka_is_said_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """As one triage says it, whether the fleet is small or large: no lag is no all-clear then."""
    monkeypatch.setattr("workbench.sweep.sweep_engine.SMALL_SAMPLES", most)
    store = land_fleet(tmp_path / "store", subscriptions=4, slot_seconds=600)
    calm = sweep(store, spark)
    assert (calm.partial, exit_code(calm)) == ((), ExitCode.OK)
    batch = SampleBatch("test", "fleet")
    times = [round(END.timestamp() * 1e6) - 15_000_000 * at for at in range(20)][::-1]
    batch.add("disk_backlog_age", {"member": "agent-7"}, times, [900.0] * 20)
    store.land(END, concat_series([slot_series(4, END, 600, 30), SeriesTable.of_samples(batch.to_arrow())]))
    found = sweep(store, spark)
    [text] = valid("sweep", found.to_json())["incomplete"]
    assert text.startswith("records also wait before Kafka: agent-7")
    assert text.endswith(": workbench audit upstream --cluster fleet")
    assert exit_code(found) == ExitCode.EVIDENCE


@pytest.mark.parametrize("most", [0, 1_000_000])
def test_a_word_that_nobody_knows_is_looked_at(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A handler that drops what fails keeps up, and is not healthy for that, whether the fleet is small or large."""
    monkeypatch.setattr("workbench.sweep.sweep_engine.SMALL_SAMPLES", most)
    store = land_fleet(tmp_path / "store", subscriptions=4, slot_seconds=600)
    batch = SampleBatch(store.info.cluster, "fleet")
    times = [round(END.timestamp() * 1e6) - 15_000_000 * at for at in range(20)][::-1]
    handler = {"group": "group-000001", "topic": "topic-000000", "member": "m", "processor": "all"}
    for word in ("ok", "dropped"):
        batch.add("processed", handler, times, [100.0 * at for at in range(20)], stat=word)
    store.land(END, concat_series([slot_series(4, END, 600, 30), SeriesTable.of_samples(batch.to_arrow())]))
    verdicts = {row["group"]: row["verdict"] for row in sweep(store, spark).table.to_pylist()}
    assert {group for group, verdict in verdicts.items() if verdict != "healthy"} == {"group-000001"}


def test_what_was_condensed_is_not_read_again(spark: Any, tmp_path: Path) -> None:
    """Counted: the first time every file is read, the next none; and of a new slot, that slot alone."""
    store = land_fleet(tmp_path / "store", subscriptions=20, slot_seconds=600, slots=6)
    ends = store.landed()
    before = store.slots_of(store.window(ends[-2]))
    first, again = condense_missing(store, spark, before), condense_missing(store, spark, before)
    assert (first.files, first.condensed) == (5, 5)
    assert first.bytes_read == sum(file.size for file in store.files(ends[:-1]))
    assert (again.files, again.condensed, again.bytes_read) == (5, 0, 0)
    assert again.summaries == first.summaries
    now = store.slots_of(store.window())
    later = condense_missing(store, spark, now)
    [new] = store.files(ends[-1:])
    assert (later.files, later.condensed, later.bytes_read) == (5, 1, new.size)
    # A slot that is landed anew with other content is another content.
    few = store.samples_of(store.window(), [("group-000001", "topic-000000")])
    store.land(ends[-1], SeriesTable.of_samples(few))
    assert condense_missing(store, spark, now).condensed == 1


def test_a_slot_that_is_replaced_while_it_is_condensed_is_condensed_as_it_is_then(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was listed, and its files are gone: that is no damage."""
    store = land_fleet(tmp_path / "store", subscriptions=20, slot_seconds=600)
    ends, run = store.slots_of(store.window()), condense_store._run

    def meanwhile(*args: Any) -> pa.Table:
        monkeypatch.undo()
        few = store.samples_of(store.window(), [("group-000001", "topic-000000")])
        store.land(END, SeriesTable.of_samples(few))
        return run(*args)

    monkeypatch.setattr(condense_store, "_run", meanwhile)
    found = condense_missing(store, spark, ends)
    assert (found.files, found.condensed) == (5, 5)
    assert found.bytes_read == sum(file.size for file in store.files(ends))
    again = condense_missing(store, spark, ends)
    assert (again.condensed, again.summaries) == (0, found.summaries)


def test_a_file_that_was_changed_is_refused(spark: Any, tmp_path: Path) -> None:
    """By its digest, before anything is made of it; nothing is left half done."""
    store = land_fleet(tmp_path / "store", subscriptions=4, slot_seconds=600)
    [file] = store.files([END])
    content = bytearray(file.path.read_bytes())
    content[100] ^= 1
    file.path.write_bytes(bytes(content))
    with pytest.raises(DamagedCaptureError, match="changed since it was landed"):
        sweep(store, spark)
    assert not [path for path in (store.root / "summaries").rglob("*.parquet") if file.digest in path.name]


def test_a_shorter_baseline_is_said_and_a_missing_window_refused(spark: Any, tmp_path: Path) -> None:
    """What has not landed is not made up."""
    store = land_fleet(tmp_path / "store", subscriptions=60, slot_seconds=600)
    shutil.rmtree(store.folder(END - timedelta(seconds=1200)))
    swept = sweep(store, spark)
    assert len(swept.incomplete) == 1
    assert f"{END - timedelta(seconds=1200):%H:%M}" in swept.incomplete[0]
    assert swept.verdicts["consumer_stopped"] >= 1
    with pytest.raises(NoSeriesError, match="has not landed"):
        sweep(store, spark, window=store.window_ending(END + timedelta(seconds=600)))


def test_groups_of_other_kinds_are_rows_of_the_table(spark: Any, tmp_path: Path) -> None:
    """A share group with samples is "cannot tell", one without is there too; the others have their kind."""
    from workbench.cli.triage_all import exit_code
    from workbench.errors import ExitCode
    from workbench.queues.group_kinds import Unjudged
    from workbench.report.sweep import show_sweep
    from workbench.terminal_tables import SafeConsole

    store = land_fleet(tmp_path / "store", subscriptions=2, slot_seconds=600)
    plain, shared = "group-000000", "group-000001"
    others = [
        Unjudged(
            cluster="fleet", group=name, kind=kind, state="stable", members=2, topics=("orders",), lag_messages=lag
        )
        for name, kind, lag in ((shared, "share", 7), ("workers", "connect", None))
    ]
    result = sweep(store, spark, kinds={plain: "consumer", shared: "share"}, others=others, missing=["broker 2"])
    rows = {row["group"]: row for row in result.table.to_pylist()}
    assert {name: (row["kind"], row["state"], row["verdict"]) for name, row in rows.items()} == {
        plain: ("consumer", "healthy", "healthy"),
        shared: ("share", "cannot_tell", "cannot_tell"),
        "workers": ("connect", "cannot_tell", "cannot_tell"),
    }
    assert result.table.num_rows == 3
    assert (rows[shared]["lag_messages"], rows[shared]["members"]) == (7.0, 2)
    assert result.incomplete[0] == "broker 2"
    assert [it["group"] for it in result.to_json()["not_judged"]] == [shared, "workers"]
    assert exit_code(result) == ExitCode.EVIDENCE
    console = SafeConsole(width=160, record=True, file=io.StringIO())
    show_sweep(console, result)
    text = console.export_text()
    assert shared in text and "a share group (KIP-932)" in text and "workers" in text
    assert sweep(store, spark).table["kind"].to_pylist() == [None, None]


def test_a_group_that_no_exporter_shows_is_a_row_of_the_table(spark: Any, tmp_path: Path) -> None:
    """What has samples is told to whoever asks for the others; one that has never committed is "cannot tell"."""
    from workbench.queues.group_kinds import Unjudged

    store = land_fleet(tmp_path / "store", subscriptions=1, slot_seconds=600)
    asked: list[Any] = []

    def unseen(seen: Any) -> list[Unjudged]:
        asked.append(seen)
        return [Unjudged(cluster="fleet", group="mute", kind="classic", state="stable", members=1, topics=("orders",))]

    result = sweep(store, spark, kinds={"mute": "classic"}, unseen=unseen)
    assert asked == [{"group-000000"}]
    rows = {row["group"]: (row["topic"], row["state"]) for row in result.table.to_pylist()}
    assert rows["mute"] == ("orders", "cannot_tell")
    assert [it.headline for it in result.not_judged] == [
        "Cannot tell: a classic consumer group: it has members, and no commit: it has never committed, or stores its positions"
        " elsewhere; whether it reads is not known."
    ]


def test_positions_of_redrive_plans_are_left_out(spark: Any, tmp_path: Path) -> None:
    """A group that would be called stopped, with the name of a redrive plan's position: neither a row nor a finding."""
    info = StoreInfo(cluster="fleet", slot_seconds=600, profiles=["kafka_exporter"])
    store = make_store(tmp_path / "store", info)
    for end in store.slots_of(store.window_ending(END)):
        series = slot_series(8, end, 600, 30)
        groups = pc.replace_substring(series.names["group"], "group-000007", f"workbench-redrive-{'a' * 32}")
        names = series.names.set_column(series.names.schema.get_field_index("group"), "group", groups)
        store.land(end, replace(series, names=names))
    result = sweep(store, spark)
    assert sorted(result.table["group"].to_pylist()) == [f"group-{number:06}" for number in range(7)]
    assert result.findings == ()
