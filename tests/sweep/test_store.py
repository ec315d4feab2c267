"""Stores of landed samples: slots that appear whole, files that never divide a group, and reading no more than is asked for."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from evaluation.stories import END as STORY_END
from evaluation.stories import lagging
from tests.fleet import END, land_fleet, slot_series
from tests.killed import killed_at_each_change
from workbench.errors import DamagedCaptureError, NoSeriesError, OutputError, UsageError
from workbench.samples import SAMPLES_SCHEMA, SeriesTable
from workbench.sweep import fleet_store as module
from workbench.sweep import reads_while_replaced
from workbench.sweep.condense_store import summary_path
from workbench.sweep.fleet_store import FleetStore, StoreInfo, make_store, open_store
from workbench.sweep.land_samples import wanting
from workbench.sweep.read_store import whole_file
from workbench.sweep.store_folder import FolderFiles


@pytest.fixture
def store(tmp_path: Path) -> FleetStore:
    """Empty, with slots of a minute."""
    return make_store(tmp_path / "store", StoreInfo(cluster="test", slot_seconds=60))


def test_a_slot_holds_its_samples_and_no_others(store: FleetStore) -> None:
    """Open at its beginning, closed at its end; landed again, it is replaced."""
    samples = SeriesTable.of_samples(lagging().samples())
    files = store.land(STORY_END, samples)
    landed = pq.read_table(files[0].path)
    assert landed.schema.remove_metadata().equals(SAMPLES_SCHEMA)
    stamps = landed["ts"]
    assert pc.max(stamps).as_py() == STORY_END
    assert pc.min(stamps).as_py() > STORY_END - timedelta(seconds=60)
    assert [file.digest for file in store.land(STORY_END, samples)] == [file.digest for file in files]
    assert store.landed() == [STORY_END]
    assert not list((store.root / "samples").rglob(".*")), "nothing is left over"


def test_a_kill_while_a_slot_is_replaced_does_not_lose_it(store: FleetStore) -> None:
    """At each change to the disk: whoever opens the store next finds the old slot or the new one, whole."""
    samples = SeriesTable.of_samples(lagging().samples())
    half = samples.take(np.arange(len(samples) // 2))
    both = {store.land(STORY_END, table)[0].digest for table in (samples, half)}
    seen = set()
    for _ in killed_at_each_change(lambda: store.land(STORY_END, half), lambda: store.land(STORY_END, samples)):
        found = open_store(store.root)
        assert found.landed() == [STORY_END]
        [file] = found.files([STORY_END])
        assert file.digest in both
        seen.add(file.digest)
    assert seen == both


def test_two_that_land_a_slot_at_once_leave_one_of_the_two(store: FleetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither fails, and neither takes what the other is writing."""
    samples = SeriesTable.of_samples(lagging().samples())
    half = samples.take(np.arange(len(samples) // 2))
    write = module._write

    def meanwhile(path: Path, piece: pa.Table) -> None:
        monkeypatch.undo()
        store.land(STORY_END, samples)
        write(path, piece)

    monkeypatch.setattr(module, "_write", meanwhile)
    [file] = store.land(STORY_END, half)
    assert 0 < pq.read_metadata(file.path).num_rows < len(samples)
    assert not list((store.root / "samples").rglob(".*")), "nothing is left over"


READERS: dict[str, Callable[[FleetStore], object]] = {
    "landed": lambda it: it.landed() == [STORY_END],
    "files": lambda it: len(it.files([STORY_END])),
    "rows": lambda it: it.rows_of(STORY_END),
    "missing": lambda it: it.missing_of(STORY_END),
    "samples": lambda it: it.samples_of(it.window(), [("payments", "orders")]).num_rows,
    "whole": lambda it: sum(table.num_rows for _, table in it.read([STORY_END], whole_file)),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_slot_that_is_replaced_while_it_is_read_is_the_old_one_or_the_new_one(
    store: FleetStore, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """Two folders cannot be exchanged at once: for a moment there is none, and what was listed is gone."""
    monkeypatch.setattr(module, "_FILE_ROWS", 500)
    samples = SeriesTable.of_samples(lagging().samples())
    kinds = [(samples, "old"), (samples.take(np.arange(len(samples) // 2)), "new")]
    allowed = set()
    for table, missing in kinds:
        store.land(STORY_END, table, missing=[missing])
        allowed.add(READERS[reader](store))
    over = threading.Event()

    def replacing() -> None:
        while not over.is_set():
            for table, missing in kinds:
                store.land(STORY_END, table, missing=[missing])

    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(replacing)
        try:
            found = [READERS[reader](store) for _ in range(150)]
        finally:
            over.set()
    assert replaced.exception() is None
    assert set(found) <= allowed and all(found)


def test_a_slot_that_comes_between_two_looks_at_it_is_read(store: FleetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was moved aside at the first, and the new one was in its place at the second."""
    store.land(STORY_END, SeriesTable.of_samples(lagging().samples()))
    slot = store.folder(STORY_END)
    old = slot.rename(slot.with_name(f".{slot.name}.0123456789abcdef.old"))
    look = reads_while_replaced.moved_aside

    def meanwhile(path: Path) -> bool:
        if old.exists():
            old.rename(slot)
        return look(path)

    monkeypatch.setattr(reads_while_replaced, "moved_aside", meanwhile)
    assert len(store.files([STORY_END])) == 1


def test_a_slot_whose_replacement_was_killed_is_listed(store: FleetStore) -> None:
    """It lies beside its place, and whoever looks puts it back."""
    store.land(STORY_END, SeriesTable.of_samples(lagging().samples()))
    slot = store.folder(STORY_END)
    slot.rename(slot.with_name(f".{slot.name}.0123456789abcdef.old"))
    assert store.landed() == [STORY_END]
    assert slot.exists()


def test_a_slot_that_is_removed_while_it_is_read_has_no_files(store: FleetStore) -> None:
    """It was pruned: what was listed is not damaged."""
    store.land(STORY_END, SeriesTable.of_samples(lagging().samples()))
    removed: list[Path] = []

    def read(path: Path, digest: str) -> pa.Table:
        if not removed:
            removed.append(path)
            store.prune(STORY_END)
        return whole_file(path, digest)

    assert store.read([STORY_END], read) == []


def test_a_file_that_stays_away_from_its_slot_is_told(store: FleetStore) -> None:
    """Its name was listed each time, as of a link to nowhere."""
    [file] = store.land(STORY_END, SeriesTable.of_samples(lagging().samples()))
    file.path.unlink()
    file.path.symlink_to("nowhere")
    for read in (lambda: store.files([STORY_END]), lambda: store.samples_of(store.window(), [("payments", "orders")])):
        with pytest.raises(DamagedCaptureError, match="was replaced or removed"):
            read()


def test_a_kill_while_slots_are_pruned_leaves_them_whole_or_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a slot would be a fleet of which half is not looked at."""
    monkeypatch.setattr(module, "_FILE_ROWS", 2_000)
    landed = land_fleet(tmp_path / "fleet", subscriptions=30, slot_seconds=600, slots=1)
    whole, seen = len(landed.files([END])), set()
    assert whole > 3
    series = slot_series(30, END, 600, 30)
    for _ in killed_at_each_change(lambda: landed.prune(END), lambda: landed.land(END, series)):
        seen.add(len(open_store(landed.root).files(landed.landed())))
    assert seen == {0, whole}


def test_a_slot_that_cannot_be_written_is_an_error_of_its_own(store: FleetStore) -> None:
    """Named, and without a traceback."""
    (store.root / "samples").write_text("in the way")
    with pytest.raises(OutputError, match=r"slot=030000 cannot be written"):
        store.land(STORY_END, SeriesTable.of_samples(lagging().samples()))


def test_what_a_kill_has_left_goes_with_its_slot(store: FleetStore) -> None:
    """A slot that was pruned does not come back out of what was left of an older landing."""
    store.land(STORY_END, SeriesTable.of_samples(lagging().samples()))
    folder = store.folder(STORY_END)
    for ending in ("old", "new", "gone"):
        (folder.parent / f".{folder.name}.0123456789abcdef.{ending}").mkdir()
    assert store.prune(STORY_END) == 1
    assert open_store(store.root).landed() == []
    assert not list((store.root / "samples").iterdir())


def test_what_is_missing_stays_with_its_slot(store: FleetStore) -> None:
    """Until it is landed anew; and Spark, like any reader of the files, sees samples only."""
    samples = SeriesTable.of_samples(lagging().samples())
    store.land(STORY_END, samples, missing=["store 7 is silent", "results \u2028 cut"])
    assert open_store(store.root).missing_of(STORY_END) == ("store 7 is silent", "results \u2028 cut")
    assert store.rows_of(STORY_END) == pq.read_table(store.root / "samples").num_rows > 0
    (store.folder(STORY_END) / module.INCOMPLETE).write_text("{")
    assert "cannot be read" in store.missing_of(STORY_END)[0]
    store.land(STORY_END, samples)
    assert store.missing_of(STORY_END) == ()
    assert store.missing_of(STORY_END + store.slot) == ()


@pytest.mark.parametrize("left", [0, 0.5])
def test_a_slot_with_a_file_that_was_cut_off_lands_anew(store: FleetStore, left: float) -> None:
    """A copy, or the end of the machine, may leave it so: it is missing, and no error of each later sweep."""
    samples = SeriesTable.of_samples(lagging().samples())
    [file] = store.land(STORY_END, samples)
    content = file.path.read_bytes()
    file.path.write_bytes(content[: int(left * len(content))])
    assert "is cut off or damaged" in store.missing_of(STORY_END)[0]
    assert store.rows_of(STORY_END) == 0
    assert wanting(store, store.window_ending(STORY_END))[-1] == STORY_END
    store.land(STORY_END, samples)
    assert (store.missing_of(STORY_END), file.path.read_bytes()) == ((), content)


def test_an_instant_off_the_grid_is_refused(store: FleetStore) -> None:
    """Or the slots of two landings would overlap."""
    with pytest.raises(UsageError, match="not the end of a slot"):
        store.land(STORY_END + timedelta(seconds=1), SeriesTable.of_samples(SAMPLES_SCHEMA.empty_table()))


def test_a_group_is_never_divided_between_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file can be condensed by itself; so it is for topics' own rows."""
    monkeypatch.setattr(module, "_FILE_ROWS", 2_000)
    landed = land_fleet(tmp_path / "fleet", subscriptions=30, slot_seconds=600, slots=1)
    groups: list[tuple[str | None, str | None]] = []
    files = landed.files([END])
    assert len(files) > 3
    for file in files:
        table = pq.read_table(file.path, columns=["group", "topic"])
        pairs = {(g, t if g is None else None) for g, t in zip(*(c.to_pylist() for c in table.columns), strict=True)}
        groups += pairs
    assert len(groups) == len(set(groups)) == 30 + 8


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """All rows of the group and its topic, members' included, and no others."""
    landed = land_fleet(tmp_path / "fleet", subscriptions=12, slot_seconds=600)
    window = landed.window()
    found = landed.samples_of(window, [("group-000005", "topic-000001")])
    whole = pa.concat_tables([pq.read_table(file.path).cast(SAMPLES_SCHEMA) for file in landed.files(landed.landed())])
    group, topic = whole["group"], whole["topic"]
    shared = pc.and_(pc.is_null(group), pc.fill_null(pc.equal(topic, "topic-000001"), False))
    wanted = whole.filter(pc.or_(pc.fill_null(pc.equal(group, "group-000005"), False), shared))
    assert found.num_rows == wanted.num_rows == 5 * 20 * (1 + 4 * 8)
    assert landed.samples_of(window, []).num_rows == 0


def test_old_slots_are_pruned(tmp_path: Path) -> None:
    """Those that end at the instant or before."""
    landed = land_fleet(tmp_path / "fleet", subscriptions=4, slot_seconds=600)
    assert landed.prune(END - timedelta(seconds=1200)) == 3
    assert landed.landed() == [END - timedelta(seconds=600), END]
    assert landed.window().end == END


def test_a_slot_that_is_pruned_while_it_lands_is_never_there_by_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first file was removed, its second one is written: that is no slot, and who lands it has an error."""
    files, slot = FolderFiles(tmp_path), "day=2026-01-01/slot=00-00"
    files.path(f"samples/{slot}").mkdir(parents=True)

    def remove(folder: Path, **_: object) -> None:
        for path in folder.glob("part-*"):
            path.unlink()
            with suppress(FileNotFoundError):
                (filling / "part-2.parquet").write_text("second")
        with suppress(OSError):
            folder.rmdir()

    with pytest.raises(FileNotFoundError), files.filling(slot) as filling:
        (filling / "part-1.parquet").write_text("first")
        monkeypatch.setattr(shutil, "rmtree", remove)
        assert files.remove_slots(lambda _: True) == 1
        monkeypatch.undo()
    assert files.slots() == []


def test_summaries_of_old_slots_are_pruned(tmp_path: Path) -> None:
    """One window later, for a sweep beside reads those of its baseline; also those of an earlier version and of slots that are gone."""
    landed = land_fleet(tmp_path / "fleet", subscriptions=4, slot_seconds=600, slots=7)
    paths = [summary_path(landed, file) for file in landed.files(landed.landed())]
    former = landed.root / "summaries" / "v1" / "2026-11-20" / "0123456789abcdef01234567-115000.parquet"
    foreign = landed.root / "summaries" / "v1" / "notes" / "a-b.parquet"
    for path in (*paths, former, foreign):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    landed.prune(END)
    left = [path.exists() for path in paths]
    assert left == [False] * 2 + [True] * 5
    assert not former.parent.exists() and foreign.exists()


def test_folders_of_no_time_are_no_slots(store: FleetStore) -> None:
    """The window of one in year 1 would begin before the calendar."""
    for name in (
        "day=0001-01-01/slot=000100",
        "day=9999-12-31/slot=235900",
        "day=x/slot=000100",
        "day=2026-11-21/slot=99",
    ):
        (store.root / "samples" / name).mkdir(parents=True)
    assert store.landed() == []
    with pytest.raises(NoSeriesError):
        store.window()


def test_a_window_is_the_newest_slot_or_the_newest_until_then(tmp_path: Path) -> None:
    """And nothing landed is no window."""
    landed = land_fleet(tmp_path / "fleet", subscriptions=4, slot_seconds=600, slots=2)
    assert landed.window(END - timedelta(seconds=1)).end == END - timedelta(seconds=600)
    with pytest.raises(NoSeriesError, match="Nothing has landed"):
        landed.window(END - timedelta(days=1))


def test_folders_that_are_no_store_are_refused(tmp_path: Path, store: FleetStore) -> None:
    """By name, with what is wrong about them."""
    with pytest.raises(UsageError, match="not a store"):
        open_store(tmp_path)
    with pytest.raises(UsageError, match="slot_seconds 60, not 90"):
        make_store(store.root, StoreInfo(cluster="test", slot_seconds=90))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        make_store(tmp_path / "other", StoreInfo(cluster="test", slot_seconds=60))
    (store.root / "store.json").write_text("{")
    with pytest.raises(DamagedCaptureError, match=r"store\.json cannot be read"):
        open_store(store.root)
