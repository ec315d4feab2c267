"""The closer look's tasks: of bounded size, and each reads the files that may hold its subscriptions and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.fleet import END, land_fleet, slot_series
from tests.objects import BUCKET, Objects, object_storage
from tests.sweep.one_task import OneTask
from workbench.errors import DamagedCaptureError, SlotReplacedError
from workbench.samples import SampleBatch, SeriesTable, concat_series
from workbench.sweep import fleet_store, looks_by_workers, s3_objects
from workbench.sweep.condense_store import NOTHING_READ, StoreReading, condense_missing
from workbench.sweep.fleet_store import FleetStore
from workbench.sweep.looks_by_workers import Names, in_tasks, looked_at

NAMES: Names = (("group-000005", "topic-000001"), ("group-000006", "topic-000001"))


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many samples as six groups have."""
    monkeypatch.setattr(fleet_store, "_FILE_ROWS", 2_000)


@pytest.fixture
def store(tmp_path: Path, small_files: None) -> FleetStore:
    """Thirty subscriptions, seven files a slot."""
    return land_fleet(tmp_path / "store", subscriptions=30, slot_seconds=600)


def read_of(store: FleetStore) -> StoreReading:
    """All of it condensed, without Spark."""
    spark: Any = OneTask()
    return condense_missing(store, spark, store.landed())


def look(store: FleetStore, reading: StoreReading, *parts: Names) -> pa.Table:
    """What the tasks make of these subscriptions, one after the other."""
    spark: Any = OneTask()
    info = store.info
    frame = looked_at(
        spark,
        store,
        reading,
        parts,
        window=store.window(),
        limits=info.thresholds,
        expected=store.expectations,
    )
    return frame.toArrow()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that tasks have opened."""
    found: list[str] = []
    read = looks_by_workers.rows_of

    def counted(path: Any, *given: Any, **more: Any) -> pa.Table:
        found.append(path.name)
        return read(path, *given, **more)

    monkeypatch.setattr(looks_by_workers, "rows_of", counted)
    return found


def holders(store: FleetStore, names: Names) -> set[str]:
    """Files with rows of these groups, or of these topics and no group."""
    groups, topics = (pa.array({pair[at] for pair in names}) for at in range(2))
    found = set()
    for file in store.files(store.landed()):
        rows = pq.read_table(file.path, columns=["group", "topic"])
        shared = pc.and_(pc.is_null(rows["group"]), pc.is_in(rows["topic"], topics))
        if pc.any(pc.or_(pc.is_in(rows["group"], groups), shared)).as_py():
            found.add(file.path.name)
    return found


def test_a_task_opens_the_files_that_hold_its_subscriptions(store: FleetStore, opened: list[str]) -> None:
    """A part of all, each once; and condenses what all files together would give."""
    found = look(store, read_of(store), NAMES)
    files = store.files(store.landed())
    assert sorted(opened) == sorted(holders(store, NAMES))
    assert 2 * len(opened) < len(files)
    opened.clear()
    assert look(store, NOTHING_READ, NAMES).equals(found)
    assert len(opened) == len(files)
    assert {(it["group"], it["topic"]) for it in found.select(["group", "topic"]).to_pylist()} == set(NAMES)


def test_tasks_give_what_one_gives(store: FleetStore) -> None:
    """However the subscriptions are divided."""
    reading = read_of(store)
    order = [(name, "ascending") for name in looks_by_workers._ORDER]
    apart = look(store, reading, NAMES[:1], NAMES[1:]).sort_by(order)
    assert apart.equals(look(store, reading, NAMES).sort_by(order))
    assert apart.num_rows


def test_a_task_is_as_large_as_its_subscriptions() -> None:
    """So many of them, or of their partitions; a larger one is alone."""
    parts = in_tasks(
        [*((f"g{at:03}", "t", 8) for at in range(120)), ("h", "t", 3_000), ("i", "t", 160), ("j", "t", 90)]
    )
    assert [len(part) for part in parts] == [25, 25, 25, 25, 20, 1, 2]
    assert [name for part in parts for name in part] == sorted(name for part in parts for name in part)
    assert in_tasks([]) == []


def test_a_file_that_landed_since_is_read_as_well(store: FleetStore, opened: list[str]) -> None:
    """What is not known of it may be anything."""
    reading = read_of(store)
    before = {file.path.name for file in store.files([END])}
    store.land(END, concat_series([slot_series(31, END, 600, 30)]))
    since = {file.path.name for file in store.files([END])} - before
    look(store, reading, NAMES)
    assert since and since <= set(opened)


def test_samples_of_nobody_are_read_where_they_may_be(store: FleetStore) -> None:
    """As from all files: of no group and no topic."""
    batch = SampleBatch("test", "fleet")
    batch.add("disk_backlog_age", {"member": "agent-7"}, [round(END.timestamp() * 1e6)], [900.0])
    store.land(END, concat_series([slot_series(30, END, 600, 30), SeriesTable.of_samples(batch.to_arrow())]))
    among = read_of(store).among_nobodys()
    window = store.window()
    found = store.samples_of_nobody(window, among)
    assert found.equals(store.samples_of_nobody(window))
    assert found["member"].to_pylist() == ["agent-7"]
    assert sum(map(among, store.files(store.landed()))) <= 10


def test_what_is_gone_or_damaged_is_named(store: FleetStore) -> None:
    """Where a task reads it."""
    reading = read_of(store)
    files = [file for file in store.files(store.landed()) if reading.among(NAMES)(file)]
    files[0].path.write_bytes(b"PAR1")
    with pytest.raises(DamagedCaptureError, match=files[0].path.name):
        look(store, reading, NAMES)
    spark: Any = Vanishing(files)
    with pytest.raises(SlotReplacedError, match="was replaced or removed"):
        looked_at(
            spark,
            store,
            reading,
            [NAMES],
            window=store.window(),
            limits=store.info.thresholds,
            expected=store.expectations,
        )


class Vanishing(OneTask):
    """Spark, which begins when the files are gone."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def range(self, *given: Any) -> OneTask:
        """As of a session."""
        for file in self._files:
            file.path.unlink(missing_ok=True)
        return super().range(*given)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Object storage of this module."""
    with object_storage(tmp_path_factory.mktemp("objects")) as found:
        yield found


def test_tasks_read_from_object_storage(
    objects: Objects, store: FleetStore, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows from the same files, and no file that was changed."""
    for name, value in objects.env().items():
        monkeypatch.setenv(name, value)
    s3_objects._storage.cache_clear()
    there = land_fleet(f"s3://{BUCKET}/looks", subscriptions=30, slot_seconds=600)
    reading = read_of(there)
    here = look(store, read_of(store), NAMES)
    count = len(opened)
    assert look(there, reading, NAMES).equals(here)
    assert len(opened) == 2 * count
    [file, *_] = [it for it in there.files(there.landed()) if reading.among(NAMES)(it)]
    data = bytearray(file.path.read_bytes())
    data[len(data) // 2] ^= 1
    file.path.write(bytes(data))
    with pytest.raises(DamagedCaptureError, match="has changed since it was landed"):
        look(there, reading, NAMES)
    file.path.remove()
    with pytest.raises(SlotReplacedError):
        look(there, reading, NAMES)
    s3_objects._storage.cache_clear()
