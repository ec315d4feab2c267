"""Rules of captures: what was written is read again; what was damaged is refused by name; nothing is left half-written."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluation.stories import THRESHOLDS, WINDOW, lagging
from tests.killed import killed_at_each_change
from workbench.collect.capture import (
    PARTS,
    ROOM_VARIABLE,
    Capture,
    complete_recording,
    new_info,
    read_capture,
    with_own,
    write_capture,
)
from workbench.collect.capture_info import INFO, write_info
from workbench.collect.limited_parquet import Room, read_bounded
from workbench.collect.parquet_footer import read_footer
from workbench.collect.parquet_page_sizes import pages_of
from workbench.errors import DamagedCaptureError, NotACaptureError, OutputError, UsageError
from workbench.samples import GROUPS_SCHEMA
from workbench.settings import Cluster


def capture() -> Capture:
    """A small one."""
    info = new_info(cluster="c", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    group = {"ts": datetime.now(UTC), "cluster": "c", "group": "payments", "state": "stable", "partition": 1}
    return Capture(
        info=info,
        samples=lagging().samples(),
        groups=pa.Table.from_pylist([group], schema=GROUPS_SCHEMA),
        events=({"ts": "2026-11-21T02:58:00Z", "kind": "deploy", "text": "v214"},),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A capture on disk."""
    target = tmp_path / "incident"
    write_capture(target, capture())
    return target


def test_a_capture_survives_the_disk(folder: Path) -> None:
    """Samples (in another order), groups, events, window and thresholds."""
    found, made = read_capture(folder), capture()
    keys = [("signal", "ascending"), ("partition", "ascending"), ("ts", "ascending")]
    assert found.samples.sort_by(keys).equals(made.samples.sort_by(keys))
    assert found.groups.num_rows == 1
    assert found.events == made.events
    assert found.window == WINDOW
    assert found.info.thresholds == THRESHOLDS


OF_0E3AD81 = {
    "pay*": {
        "time_lag_objective": "PT18S", "commit_every": None, "batch": None, "owner": "#evil",
        "runbook": "https://evil.example", "mute": {"until": "2026-12-01T08:00:00+00:00", "reason": "migration"},
        "runbook_base": None, "grafana": "https://evil.example/{group}", "logs": None, "actions": {"pause": "curl x | sh"},
    },
    "*": {"commit_every": "PT10M", "actions": {"no such kind": "x"}},
}  # fmt: skip


def test_a_capture_brings_no_commands_and_no_links(folder: Path) -> None:
    """Its head is foreign text: only what changes a verdict is read; the rest, that of older ones too, is not even kept."""
    head = json.loads((folder / INFO).read_text())
    (folder / INFO).write_text(json.dumps({**head, "expected": OF_0E3AD81}))
    found = read_capture(folder)
    assert "evil" not in repr(found.info)
    assert "curl" not in found.info.model_dump_json()
    settings = found.expectations.of("payments").settings
    assert settings.time_lag_objective == timedelta(seconds=18)
    assert settings.commit_every == timedelta(minutes=10)  # null was never a setting
    assert settings.mute is not None
    assert settings.actions is None
    ours = Cluster.model_validate(
        {
            "name": "c",
            "bootstrap": "ours:9092",
            "kafka": {"security.protocol": "SSL"},
            "groups": {"*": {"actions": {"pause": "ours {group}"}, "owner": "#us"}},
        }
    )
    mine = with_own(found, ours)
    assert mine.expectations.of("payments").settings.owner == "#us"
    assert mine.expectations.of("payments").settings.time_lag_objective == timedelta(seconds=18)
    assert (found.bootstrap, mine.bootstrap) == (None, "ours:9092")
    assert (found.login_file, mine.login_file) == (None, "client.properties")
    write_capture(folder.parent / "again", mine)
    assert "#us" not in (folder.parent / "again" / INFO).read_text()


def test_the_truth_is_not_in_it(folder: Path) -> None:
    """A capture holds measurements only: exactly these files, exactly these fields."""
    assert sorted(path.name for path in folder.iterdir()) == [
        "capture.json",
        "events.jsonl",
        "groups.parquet",
        "samples.parquet",
    ]
    assert set(json.loads((folder / INFO).read_text())) == {
        "schema", "state", "cluster", "bootstrap", "source", "profiles", "window", "groups", "topics", "incomplete", "thresholds",
        "created_at", "versions", "files", "match", "sources", "expected",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["samples.parquet", "groups.parquet", "events.jsonl"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damage_is_found_and_named(folder: Path, name: str, damage: str) -> None:
    """A flipped bit, a cut file, a missing file: each is an error with the file's name, never a verdict."""
    path = folder / name
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    with pytest.raises(DamagedCaptureError, match=name):
        read_capture(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda info: info.pop("window"), "window"),
        (lambda info: info.update(schema="workbench.capture/9"), "schema"),
        (lambda info: info["files"].pop("samples.parquet"), "samples.parquet"),
        (lambda info: info["window"].update(start=info["window"]["end"]), "before its end"),
        (lambda info: info["window"].update(end="2026-11-21T03:00:00"), "time zone"),
        (lambda info: info.update(thresholds={"slow_ratio": "much"}), "slow_ratio"),
    ],
)
def test_a_wrong_head_is_named(folder: Path, change: object, named: str) -> None:
    """Every field that is used is checked when it is read."""
    info = json.loads((folder / INFO).read_text())
    change(info)  # type: ignore[operator]
    (folder / INFO).write_text(json.dumps(info))
    with pytest.raises(DamagedCaptureError, match=named):
        read_capture(folder)


def test_a_cut_head_and_no_capture_at_all(folder: Path, tmp_path: Path) -> None:
    """Half a head is damage; a folder without one is no capture; a missing folder is told as such."""
    text = (folder / INFO).read_text()
    (folder / INFO).write_text(text[: len(text) // 2])
    with pytest.raises(DamagedCaptureError):
        read_capture(folder)
    (folder / INFO).unlink()
    with pytest.raises(NotACaptureError, match=r"capture\.json"):
        read_capture(folder)
    with pytest.raises(NotACaptureError, match="no folder"):
        read_capture(tmp_path / "nowhere")


def test_other_columns_are_refused(folder: Path) -> None:
    """A file of another version, with a right checksum, is refused by its column."""
    table = pq.read_table(folder / "samples.parquet").drop_columns(["flag"])
    other = folder.parent / "other"
    made = capture()
    write_capture(other, Capture(info=made.info, samples=made.samples, groups=made.groups))
    pq.write_table(table, other / "samples.parquet")
    info = json.loads((other / INFO).read_text())
    info["files"]["samples.parquet"]["sha256"] = hashlib.sha256((other / "samples.parquet").read_bytes()).hexdigest()
    (other / INFO).write_text(json.dumps(info))
    with pytest.raises(DamagedCaptureError, match="flag"):
        read_capture(other)


def test_a_full_folder_is_never_overwritten(folder: Path, tmp_path: Path) -> None:
    """Somebody's files are not ours to replace; a failed write leaves nothing."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("keep")
    for target in (mine, folder):
        with pytest.raises(UsageError, match="not empty"):
            write_capture(target, capture())
    assert (mine / "notes.txt").read_text() == "keep"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["incident", "mine"], "nothing is left over"


@pytest.mark.parametrize("there", [False, True])
def test_a_neighbours_folder_is_not_touched(tmp_path: Path, there: bool) -> None:
    """Whatever its name: `.part` and `.old` are what people call their own folders, too."""
    target = tmp_path / "incident"
    if there:
        recording(target)
    for ending in (".part", ".old", ".tmp"):
        (tmp_path / f"incident{ending}").mkdir()
        (tmp_path / f"incident{ending}" / "notes.txt").write_text("keep")
    (complete_recording if there else write_capture)(target, capture())
    assert read_capture(target).samples.num_rows == capture().samples.num_rows
    kept = {f"incident{ending}" for ending in (".part", ".old", ".tmp")}
    assert {path.name for path in tmp_path.iterdir()} == {"incident", *kept}
    assert all((tmp_path / name / "notes.txt").read_text() == "keep" for name in kept)


def recording(folder: Path) -> None:
    """One that goes on: the same samples in two parts."""
    made = capture()
    (folder / PARTS).mkdir(parents=True)
    half = made.samples.num_rows // 2
    pq.write_table(made.samples.slice(0, half), folder / PARTS / "samples-000001.parquet")
    pq.write_table(made.samples.slice(half), folder / PARTS / "samples-000002.parquet")
    write_info(folder, made.info.model_copy(update={"state": "recording"}))


def test_a_kill_while_a_capture_is_saved_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    """At each change to the disk; a folder that was there and empty included."""
    target, made = tmp_path / "incident", capture()
    states = set()

    def clear() -> None:
        shutil.rmtree(target, ignore_errors=True)

    for _ in killed_at_each_change(lambda: write_capture(target, made), clear):
        states.add(target.exists())
        if target.exists():
            assert read_capture(target).samples.num_rows == made.samples.num_rows
    assert states == {False, True}


def test_a_kill_while_a_recording_is_completed_loses_no_sample(tmp_path: Path) -> None:
    """At each change to the disk it is the recording or the complete capture, and can be completed again."""
    target, made = tmp_path / "incident", capture()
    states = set()

    def record() -> None:
        shutil.rmtree(target, ignore_errors=True)
        recording(target)

    for _ in killed_at_each_change(lambda: complete_recording(target, made), record):
        found = read_capture(target)
        states.add(found.info.state)
        assert found.samples.num_rows == made.samples.num_rows
        complete_recording(target, made)
        assert sorted(path.name for path in target.iterdir() if path.name[0] != ".") == [
            "capture.json", "events.jsonl", "groups.parquet", "samples.parquet",
        ]  # fmt: skip
    assert states == {"recording", "complete"}


def test_two_that_save_to_one_folder_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is later by a moment is refused, as it would have been a moment later still."""
    target, made = tmp_path / "incident", capture()

    def meanwhile(folder: Path, info: object) -> None:
        monkeypatch.undo()
        write_capture(target, made)
        write_info(folder, info)  # type: ignore[arg-type]

    monkeypatch.setattr("workbench.collect.capture.write_info", meanwhile)
    with pytest.raises(UsageError, match="not empty"):
        write_capture(target, made)
    assert read_capture(target).samples.num_rows == made.samples.num_rows
    assert [path.name for path in tmp_path.iterdir()] == ["incident"]


def test_what_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    """A file in the way of the folder, or of the folder's folder."""
    (tmp_path / "file").write_text("keep")
    with pytest.raises(UsageError, match="not empty"):
        write_capture(tmp_path / "file", capture())
    with pytest.raises(OutputError, match="cannot be written"):
        write_capture(tmp_path / "file" / "incident", capture())
    assert (tmp_path / "file").read_text() == "keep"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_recording_can_be_read_while_it_goes_on(tmp_path: Path) -> None:
    """Its parts are whole files, so what has landed can be analysed at any moment, also after a kill -9."""
    made = capture()
    recording(tmp_path)
    assert read_capture(tmp_path).samples.num_rows == made.samples.num_rows
    shutil.rmtree(tmp_path / PARTS)
    assert read_capture(tmp_path).samples.num_rows == 0


def test_a_recording_that_is_completed_while_it_is_read_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts go away in the middle of the reading."""
    target, made = tmp_path / "incident", capture()
    recording(target)

    def meanwhile(path: Path, schema: pa.Schema, room: Room) -> pa.Table:
        monkeypatch.undo()
        complete_recording(target, made)
        return read_bounded(path, schema, room)

    monkeypatch.setattr("workbench.collect.capture.read_bounded", meanwhile)
    found = read_capture(target)
    assert (found.info.state, found.samples.num_rows) == ("complete", made.samples.num_rows)


def forge(folder: Path, name: str, table: pa.Table, **options: object) -> None:
    """Put other content into a capture, checksum and all, as whoever sends it can."""
    path = folder / name
    pq.write_table(table, path, **options)
    info = json.loads((folder / INFO).read_text())
    info["files"][name] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "rows": table.num_rows}
    (folder / INFO).write_text(json.dumps(info))


def test_a_megabyte_that_decodes_to_gigabytes_is_refused_before_it_does(folder: Path) -> None:
    """A long word that every row refers to; what was decoded until then is little."""
    rows, word = 10_000, "x" * (1 << 20)
    plain = capture().samples.slice(0, 1)
    again = pa.array(np.zeros(rows, np.int32))
    columns = {name: plain[name].take(again) for name in plain.schema.names}
    columns["group"] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word]))
    forge(folder, "samples.parquet", pa.table(columns), compression="zstd")
    assert (folder / "samples.parquet").stat().st_size < 1 << 20
    before = pa.total_allocated_bytes()
    with pytest.raises(UsageError, match="more than 4 GiB") as caught:
        read_capture(folder)
    assert ROOM_VARIABLE in (caught.value.hint or "")
    assert pa.total_allocated_bytes() - before < 64 << 20
    assert pa.default_memory_pool().max_memory() < 8 << 30, "9.8 GB were never there"


@pytest.mark.parametrize("name", ["samples.parquet", "groups.parquet"])
def test_rows_without_a_time_are_refused(folder: Path, name: str) -> None:
    """Whichever of the files they are in."""
    table = capture().samples if name == "samples.parquet" else capture().groups
    at = table.schema.names.index("ts")
    forge(folder, name, table.set_column(at, "ts", pa.nulls(table.num_rows, table["ts"].type)))
    with pytest.raises(DamagedCaptureError, match="without a"):
        read_capture(folder)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_one_long_text_is_refused_before_it_is_decompressed(folder: Path, version: str) -> None:
    """It compresses to almost nothing, and each of the columns may have one."""
    rows = capture().samples.slice(0, 1)
    word = pa.array(["x" * (40 << 20)])
    columns = {it.name: word if pa.types.is_string(it.type) else rows[it.name] for it in rows.schema}
    forge(folder, "samples.parquet", pa.table(columns), compression="zstd", data_page_version=version)
    before = pa.total_allocated_bytes()
    with pytest.raises(UsageError, match="memory"):
        read_capture(folder, room_gib=0.06)
    assert pa.total_allocated_bytes() - before < 8 << 20


def test_texts_as_changes_of_the_one_before_are_refused(folder: Path) -> None:
    """Each of them may be as long as all pages: nothing tells before they are decoded."""
    samples = capture().samples
    encoding = {"group": "DELTA_BYTE_ARRAY"}
    forge(folder, "samples.parquet", samples, use_dictionary=False, column_encoding=encoding)
    with pytest.raises(DamagedCaptureError, match="changes of texts"):
        read_capture(folder)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_the_heads_of_pages_say_what_the_footer_says(tmp_path: Path, version: str, dictionary: bool) -> None:
    """Of a file that nobody has forged; the footer counts the heads as well."""
    path = tmp_path / "x.parquet"
    table = pa.concat_tables([capture().samples] * 20)
    pq.write_table(
        table, path, compression="zstd", use_dictionary=dictionary, data_page_version=version, data_page_size=2000,
        row_group_size=4000,
    )  # fmt: skip
    with pq.ParquetFile(path) as file, path.open("rb") as data:
        groups = list(map(file.metadata.row_group, range(file.metadata.num_row_groups)))
        for group, read in zip(groups, read_footer(data).groups, strict=True):
            for chunk, ours in zip(map(group.column, range(group.num_columns)), read.values(), strict=True):
                found = pages_of(data, ours)
                assert 0 < found.size <= chunk.total_uncompressed_size < found.size + 60_000
                assert found.encodings


def test_rows_without_end_are_refused_by_their_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of one value takes a few bytes, however long; who knows better gives more room."""
    one = capture().samples.slice(0, 1)
    forge(folder, "samples.parquet", one.take(pa.array(np.zeros(300_000, np.int32))), compression="zstd")
    assert (folder / "samples.parquet").stat().st_size < 100_000
    monkeypatch.setenv(ROOM_VARIABLE, "0.03")
    with pytest.raises(UsageError, match=r"more than 0\.03 GiB"):
        read_capture(folder)
    monkeypatch.setenv(ROOM_VARIABLE, "1")
    assert read_capture(folder).samples.num_rows == 300_000
    monkeypatch.setenv(ROOM_VARIABLE, "much")
    with pytest.raises(UsageError, match="not a number"):
        read_capture(folder)


def test_parts_of_a_recording_share_one_room(tmp_path: Path) -> None:
    """A thousand small files are one large one."""
    recording(tmp_path)
    samples = capture().samples
    whole = samples.nbytes / 2**30
    with pytest.raises(UsageError, match="memory"):
        read_capture(tmp_path, room_gib=whole * 0.7)
    assert read_capture(tmp_path, room_gib=whole * 2).samples.num_rows == samples.num_rows


@pytest.mark.parametrize(
    "name", ["../neighbour/secret", "/etc/hostname", "samples.parquet/../../neighbour/secret", "notes.txt"]
)
def test_a_name_that_no_capture_has_is_refused(folder: Path, name: str) -> None:
    """Above all one that leads out of the folder: nothing there is read."""
    info = json.loads((folder / INFO).read_text())
    info["files"][name] = {"sha256": "0" * 64, "rows": 1}
    (folder / INFO).write_text(json.dumps(info))
    with pytest.raises(DamagedCaptureError, match="lists files that do not belong to a capture"):
        read_capture(folder)


@pytest.mark.parametrize("name", ["capture.json", "samples.parquet", "events.jsonl", "parts"])
def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    """Nor is one to a folder of parts; a link to the whole capture is the user's own."""
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert read_capture(link).samples.num_rows
    elsewhere = tmp_path / "elsewhere"
    if name == "parts":
        shutil.rmtree(folder)
        recording(folder)
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(DamagedCaptureError, match="is outside of the capture"):
        read_capture(folder)


@pytest.mark.parametrize("year", ["0001", "1969", "3000", "9999"])
@pytest.mark.parametrize("field", ["baseline_start", "start", "end", "created_at"])
def test_a_head_with_dates_that_no_clock_shows_is_refused(folder: Path, field: str, year: str) -> None:
    """At the ends of the calendar the next subtraction is an error of its own; the zone makes it so at once."""
    info = json.loads((folder / INFO).read_text())
    place = info if field == "created_at" else info["window"]
    place[field] = f"{year}-01-01T00:00:00+14:00"
    (folder / INFO).write_text(json.dumps(info))
    with pytest.raises(DamagedCaptureError, match=rf"{field}.*the year {int(year)}"):
        read_capture(folder)


@pytest.mark.parametrize("ts_us", [-62_135_596_800_000_000, -1, 32_503_680_000_000_000, 2**63 - 1, -(2**63) + 1])
@pytest.mark.parametrize("name", ["samples.parquet", "groups.parquet"])
def test_samples_of_a_time_that_no_clock_shows_are_refused(folder: Path, name: str, ts_us: int) -> None:
    """Years 1, 1969 and 3000, and those that Python has no date for."""
    table = pq.read_table(folder / name).slice(0, 1)
    stamps = pa.array([ts_us], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    forge(folder, name, table.set_column(table.schema.get_field_index("ts"), "ts", stamps))
    with pytest.raises(DamagedCaptureError, match="samples of the years"):
        read_capture(folder)


@pytest.mark.parametrize("content", [b"[1]\n", b"3\n", b"[" * 100_000, b"\xff\n"])
def test_events_that_are_none_are_refused(folder: Path, content: bytes) -> None:
    """Before a chart asks them for their time."""
    (folder / "events.jsonl").write_bytes(content)
    info = json.loads((folder / INFO).read_text())
    info["files"]["events.jsonl"] = {"sha256": hashlib.sha256(content).hexdigest(), "rows": 1}
    (folder / INFO).write_text(json.dumps(info))
    with pytest.raises(DamagedCaptureError, match=r"events\.jsonl"):
        read_capture(folder)


@pytest.mark.parametrize("name", ["samples.parquet", "groups.parquet"])
@pytest.mark.parametrize("text", [b"payments", b"topic"], ids=["a group", "a column"])
def test_text_that_is_none_is_refused(folder: Path, name: str, text: bytes) -> None:
    """In a value or in the name of a column, before somebody wants to show it."""
    table = pq.read_table(folder / name)
    at = table.schema.get_field_index("group")
    forge(folder, name, table.set_column(at, "group", pa.array(["payments"] * table.num_rows)), compression="none")
    path = folder / name
    path.write_bytes(path.read_bytes().replace(text, b"\xff" + text[1:]))
    info = json.loads((folder / INFO).read_text())
    info["files"][name]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / INFO).write_text(json.dumps(info))
    with pytest.raises(DamagedCaptureError, match=name):
        read_capture(folder)


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.binary(), pa.float64()])
def test_a_column_of_another_kind_is_refused_undecoded(folder: Path, kind: pa.DataType) -> None:
    """A list could hold anything."""
    table = pq.read_table(folder / "samples.parquet")
    at = table.schema.get_field_index("group")
    forge(folder, "samples.parquet", table.set_column(at, "group", pa.nulls(table.num_rows, kind)))
    with pytest.raises(DamagedCaptureError, match="other column types"):
        read_capture(folder)
