"""Rules of captures: what was written is read again; what was damaged is refused by name; nothing is left half-written."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.killed import killed_at_each_change
from tests.stories import THRESHOLDS, WINDOW, lagging
from workbench.collect.capture import (
    INFO,
    PARTS,
    Capture,
    complete_recording,
    new_info,
    read_capture,
    write_capture,
    write_info,
)
from workbench.collect.kafka import GROUPS_SCHEMA
from workbench.errors import DamagedCaptureError, NotACaptureError, UsageError


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
        "created_at", "versions", "files",
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
    import hashlib

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
    read = pq.read_table

    def meanwhile(path: Path) -> pa.Table:
        monkeypatch.undo()
        complete_recording(target, made)
        return read(path)

    monkeypatch.setattr("workbench.collect.capture.pq.read_table", meanwhile)
    found = read_capture(target)
    assert (found.info.state, found.samples.num_rows) == ("complete", made.samples.num_rows)
