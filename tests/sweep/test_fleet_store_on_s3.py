"""Stores in object storage: the same as in a folder, slots that appear at once without a rename, a storage that fails or is slow."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.stories import END as STORY_END
from evaluation.stories import lagging
from tests.fleet import END, land_fleet, slot_series
from tests.killed import killed_at_each_change
from tests.objects import BUCKET, Objects, Weather, object_storage, proxied
from tests.sweep.one_task import OneTask
from workbench.collect.samples_from_prometheus import Collected
from workbench.errors import (
    DamagedCaptureError,
    ExitCode,
    NoSeriesError,
    SlotReplacedError,
    SourceUnreachableError,
    UsageError,
    WorkbenchError,
)
from workbench.samples import SeriesTable
from workbench.sweep import fleet_store as module
from workbench.sweep import s3_objects
from workbench.sweep.condense_store import condense_file, condense_missing, summary_path
from workbench.sweep.fleet_store import FleetStore, StoreInfo, make_store, open_store
from workbench.sweep.land_samples import land_missing
from workbench.sweep.read_store import whole_file
from workbench.sweep.s3_objects import ObjectFile
from workbench.window import Window

ROOT = Path(__file__).parent.parent.parent
SAMPLES = SeriesTable.of_samples(lagging().samples())
HALF = SAMPLES.take(np.arange(len(SAMPLES) // 2))
INFO = StoreInfo(cluster="test", slot_seconds=60)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    """One server for all tests of this module; each has a prefix of its own."""
    with object_storage(tmp_path_factory.mktemp("objects")) as found:
        yield found


@pytest.fixture(autouse=True)
def _reached(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """By this process's environment; what was known of former ones is forgotten."""
    for name, value in objects.env().items():
        monkeypatch.setenv(name, value)
    s3_objects._storage.cache_clear()
    yield
    s3_objects._storage.cache_clear()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """An address that no other test has."""
    return f"s3://{BUCKET}/{hashlib.sha256(request.node.name.encode()).hexdigest()[:16]}/prod"


@pytest.fixture
def store(place: str) -> FleetStore:
    """Empty, with slots of a minute."""
    return make_store(place, INFO)


def keys(store: FleetStore) -> list[str]:
    """All objects of a store."""
    return [name for name, _ in store.root.below(deep=True)]


def digests(store: FleetStore) -> list[str]:
    """Of the files of all landed slots; they are read, so they are there."""
    return [file.digest for file, _ in store.read(store.landed(), whole_file)]


def test_a_fleet_is_the_same_as_in_a_folder(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was landed, what is read of it, and what is condensed; and a store says nothing of how it is reached."""
    monkeypatch.setattr(module, "_FILE_ROWS", 2_000)
    there, here = (land_fleet(at, subscriptions=30, slot_seconds=600) for at in (place, tmp_path / "store"))
    there = open_store(place)
    assert there.landed() == here.landed()
    ends = here.landed()
    assert [(it.end, it.size, it.digest) for it in there.files(ends)] == [
        (it.end, it.size, it.digest) for it in sorted(here.files(ends), key=lambda it: (it.end, it.path.name))
    ]
    assert [there.rows_of(end) for end in ends] == [here.rows_of(end) for end in ends]
    names = [("group-000005", "topic-000001"), ("group-000007", "topic-000001")]
    assert there.samples_of(there.window(), names).equals(here.samples_of(here.window(), names))
    assert there.samples_of_nobody(there.window()).equals(here.samples_of_nobody(here.window()))
    spark: Any = OneTask()
    counts = [condense_missing(it, spark, ends) for it in (there, here, there, here)]
    assert [it.condensed for it in counts] == [len(here.files(ends))] * 2 + [0] * 2
    assert {(it.bytes_read, it.samples_read, it.counters) for it in counts[:2]} == {
        (counts[1].bytes_read, counts[1].samples_read, counts[1].counters)
    }
    for one, other in zip(there.files(ends), here.files(ends), strict=True):
        assert summary_path(there, one).read_bytes() == summary_path(here, other).read_bytes()
    written = b"".join((there.root / name).read_bytes() for name in keys(there) if name.endswith(".json"))
    for secret in (os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["AWS_ACCESS_KEY_ID"], "127.0.0.1"):
        assert secret.encode() not in written
        assert secret not in str(there.root) and (secret == "127.0.0.1" or secret not in there.root.address)


def test_a_repeated_landing_replaces_a_slot_and_leaves_nothing(store: FleetStore) -> None:
    """The former one's files go; what is missing stays until it is landed whole."""
    first = store.land(STORY_END, HALF, missing=["store 7 is silent", "results \u2028 cut"])
    assert open_store(f"s3://{store.root.bucket.name}/{store.root.key}").missing_of(STORY_END) == (
        "store 7 is silent",
        "results \u2028 cut",
    )
    files = [store.land(STORY_END, SAMPLES) for _ in range(3)][-1]
    assert [file.digest for file in files] != [file.digest for file in first]
    assert store.missing_of(STORY_END) == store.missing_of(STORY_END + store.slot) == ()
    assert store.landed() == [STORY_END]
    assert len([name for name in keys(store) if name.startswith("samples/")]) == len(files)


def test_a_kill_while_a_slot_is_landed_leaves_the_old_one_or_the_new_one(store: FleetStore) -> None:
    """Before each write and each removal: whoever opens the store next reads one of the two, whole; of a first landing, all or none."""
    both = {digests_of(store, it) for it in (HALF, SAMPLES)}
    address = f"s3://{BUCKET}/{store.root.key}"
    seen = set()
    for _ in killed_at_each_write(lambda: store.land(STORY_END, SAMPLES), lambda: store.land(STORY_END, HALF)):
        seen.add(tuple(digests(open_store(address))))
    assert seen == both
    seen = set()
    for _ in killed_at_each_write(lambda: store.land(STORY_END, SAMPLES), lambda: store.prune(STORY_END)):
        seen.add(tuple(digests(open_store(address))))
    assert seen == {(), digests_of(store, SAMPLES)}


def digests_of(store: FleetStore, samples: SeriesTable) -> tuple[str, ...]:
    """Of a landing of these."""
    return tuple(file.digest for file in store.land(STORY_END, samples))


def killed_at_each_write(work: Callable[[], object], again: Callable[[], object]) -> Iterator[int]:
    """Changes to object storage."""
    return killed_at_each_change(work, again, of=ObjectFile, changes=("write", "remove", "remove_all"))


def test_a_kill_while_slots_are_removed_leaves_them_whole_or_away(store: FleetStore) -> None:
    """What a kill has left is no slot, and goes the next time."""
    seen = set()
    for _ in killed_at_each_write(lambda: store.prune(STORY_END), lambda: store.land(STORY_END, SAMPLES)):
        seen.add(tuple(digests(store)))
        store.prune(STORY_END)
        assert keys(store) == ["store.json"]
    assert len(seen) == 2 and () in seen


def test_two_that_land_a_slot_at_once_leave_one_of_the_two(store: FleetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each write of the one, the other lands as a whole: no file is taken from the other, also where both wrote the same."""
    write = ObjectFile.write
    for other in (HALF, SAMPLES):
        for at in range(3):
            store.land(STORY_END, HALF)
            left = [at]

            def meanwhile(path: ObjectFile, data: bytes, left: list[int] = left, other: SeriesTable = other) -> None:
                left[0] -= 1
                if left[0] == -1:
                    store.land(STORY_END, other)
                write(path, data)

            with monkeypatch.context() as patched:
                patched.setattr(ObjectFile, "write", meanwhile)
                store.land(STORY_END, SAMPLES)
            assert tuple(digests(store)) in {digests_of(store, it) for it in (HALF, SAMPLES)}


def test_a_slot_that_is_replaced_while_it_is_read_is_the_old_one_or_the_new_one(
    store: FleetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an older manifest names is gone, so the newer one is read."""
    monkeypatch.setattr(module, "_FILE_ROWS", 500)
    readers: list[Callable[[], object]] = [
        lambda: store.landed() == [STORY_END],
        lambda: (store.rows_of(STORY_END), 0),
        lambda: store.missing_of(STORY_END),
        lambda: sum(table.num_rows for _, table in store.read([STORY_END], whole_file)),
    ]
    allowed = []
    for table, missing in ((SAMPLES, "old"), (HALF, "new")):
        store.land(STORY_END, table, missing=[missing])
        allowed += [read() for read in readers]
    over = threading.Event()

    def replacing() -> None:
        while not over.is_set():
            for table, missing in ((SAMPLES, "old"), (HALF, "new")):
                store.land(STORY_END, table, missing=[missing])

    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(replacing)
        try:
            found = [read() for _ in range(8) for read in readers]
        finally:
            over.set()
    assert replaced.exception() is None
    assert all(it in allowed for it in found) and all(found)


def test_files_without_a_manifest_are_no_slot(store: FleetStore) -> None:
    """A landing that is under way, or was killed: nothing has landed, so nothing is judged; another one lands beside it."""
    [file] = store.land(STORY_END, SAMPLES)
    data = file.path.read_bytes()
    store.prune(STORY_END)
    file.path.write(data)
    assert store.landed() == [] and store.files([STORY_END]) == []
    with pytest.raises(NoSeriesError, match="Nothing has landed in s3://fleet/"):
        store.window()
    assert len(digests_of(store, HALF)) == len(store.read([STORY_END], whole_file)) == 1


def test_half_a_slot_is_never_judged(store: FleetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that its manifest names is gone, or is another: an error (data are missing), not fewer samples."""
    monkeypatch.setattr(module, "_FILE_ROWS", 500)
    monkeypatch.setattr("workbench.sweep.reads_while_replaced.TRIES", 3)
    first, *_ = store.land(STORY_END, SAMPLES)
    data = first.path.read_bytes()
    first.path.remove()
    spark: Any = OneTask()
    for read in (lambda: store.read([STORY_END], whole_file), lambda: condense_missing(store, spark, [STORY_END])):
        with pytest.raises(SlotReplacedError, match="was replaced or removed"):
            read()
    first.path.write(data[:-1] + b"x")
    for read in (lambda: store.read([STORY_END], whole_file), lambda: condense_missing(store, spark, [STORY_END])):
        with pytest.raises(DamagedCaptureError, match="has changed since it was landed") as caught:
            read()
        assert caught.value.exit_code == ExitCode.EVIDENCE


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"parts": [{"name": "../../store.json", "size": 1, "rows": 1}]}',
        '{"parts": [{"name": "part-0123456789abcdef-0123456789abcdef01234567.parquet\\n", "size": 1, "rows": 1}]}',
        '{"parts": [{"name": "part-0123456789abcdef-0123456789abcdef01234567.parquet", "size": -1, "rows": 1}]}',
        '{"parts": [], "missing": [5]}',
        '{"parts": [], "more": 1}',
        "[" * 100_000,
    ],
)
def test_a_manifest_of_somebody_else_is_not_believed(store: FleetStore, text: str) -> None:
    """It names no file elsewhere; the slot can be landed again."""
    store.land(STORY_END, SAMPLES)
    [manifest] = [name for name in keys(store) if name.startswith("slots/")]
    (store.root / manifest).write(text.encode())
    for read in (store.files, lambda ends: store.rows_of(ends[0]), lambda ends: store.missing_of(ends[0])):
        with pytest.raises(DamagedCaptureError, match=r"slots/.*/030000\.json cannot be read") as caught:
            read([STORY_END])
        assert "land the slot again" in str(caught.value.hint)
    assert len(digests_of(store, SAMPLES)) == 1


def test_foreign_objects_are_no_slots(store: FleetStore) -> None:
    """Whatever they are called."""
    names = (
        "slots/0001-01-01/000100.json", "slots/9999-12-31/235900.json", "slots/x/000100.json", "slots/2026-11-21/99.json",
        "slots/2026-11-21/\u202e030000.json", "slots/2026-11-21/030000.json.tmp", "slots/2026-11-21/deep/030000.json",
        "samples/day=2026-11-21/slot=<b>'\"/part-x.parquet", "summaries/v1/notes/a-b.parquet", "summaries/v5",
    )  # fmt: skip
    for name in names:
        (store.root / name).write(b"x")
    assert store.landed() == []
    store.land(STORY_END, SAMPLES)
    assert store.prune(STORY_END) == 1
    assert store.landed() == [] and set(names[-3:]) <= set(keys(store))


def test_old_slots_and_summaries_are_removed(place: str) -> None:
    """As in a folder, with what killed landings have left of older days."""
    store = land_fleet(place, subscriptions=4, slot_seconds=600, slots=7)
    spark: Any = OneTask()
    condense_missing(store, spark, store.landed())
    paths = [summary_path(store, file) for file in store.files(store.landed())]
    left = "samples/day=2026-11-19/slot=030000/part-x.parquet"
    (store.root / left).write(b"x")
    assert store.prune(END - timedelta(seconds=1200)) == 5
    assert left not in keys(store)
    assert store.landed() == [END - timedelta(seconds=600), END] and store.window().end == END
    assert store.prune(END) == 2
    assert [path.exists() for path in paths] == [False] * 2 + [True] * 5
    assert not [name for name in keys(store) if name.startswith(("samples/", "slots/"))]


def test_landing_asks_again_for_what_is_incomplete(store: FleetStore) -> None:
    """As in a folder."""
    store = replace(store, info=store.info.model_copy(update={"slot_seconds": 600}))
    missing: tuple[str, ...] = ("store 7 is silent",)
    subscriptions = [4, 2, 4]
    ask: Callable[[Window], Collected] = lambda window: Collected(  # noqa: E731
        series=slot_series(subscriptions[0], window.end, 600, 30), incomplete=missing
    )
    window = store.window_ending(END)
    assert land_missing(store, window, ask).slots == 5
    rows = store.rows_of(END)
    subscriptions.pop(0)
    assert land_missing(store, window, ask).slots == 0
    assert (store.rows_of(END), store.missing_of(END)) == (rows, missing)
    subscriptions.pop(0)
    missing = ()
    assert land_missing(store, window, ask).slots == 5
    assert land_missing(store, window, ask).slots == 0


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("s3://", "no name of a bucket"),
        ("s3://a/b", "no name of a bucket"),
        ("s3://fleet\n/prod", "no name of a bucket"),
        ("s3://\u202efleet/prod", "no name of a bucket"),
        ("s3://fleet/../other", "no prefix"),
        ("s3://fleet//prod", "no prefix"),
        ("s3://fleet/a b", "no prefix"),
        ("s3://fleet/a%2Fb", "no prefix"),
        ("s3://fleet/a#b", "no prefix"),
        ("s3://AKIA:wJalrXUtnFEMI@fleet/prod", "holds no credentials"),
        ("s3://fleet/prod?endpoint_override=http://me:wJalrXUtnFEMI@host", "holds no credentials"),
        ("s3://fleet/prod?secret_key=wJalrXUtnFEMI", "has the parameters"),
        ("s3://fleet/prod?region=a&region=b", "has the parameters"),
        ("s3://fleet/prod?region=a%20b", "region"),
        ("s3://fleet/prod?scheme=file", "scheme"),
        ("s3://fleet/prod?endpoint_override=host/path", "endpoint"),
        ("s3://fleet/prod?endpoint_override=ho%0Ast", "endpoint"),
    ],
)
def test_addresses_that_are_none_are_refused(address: str, words: str) -> None:
    """By a sentence, with the form that it should have; and no secret of one is shown."""
    with pytest.raises(UsageError, match=words) as caught:
        open_store(address)
    said = f"{caught.value} {caught.value.hint}"
    assert "wJalrXUtnFEMI" not in said and "\n" not in said and "\u202e" not in said


def test_what_is_no_store_is_told(store: FleetStore) -> None:
    """A bucket that is not there, a prefix with nothing or with something else, and a store of another cluster."""
    for call in (lambda: open_store("s3://nowhere/prod"), lambda: make_store("s3://nowhere/prod", INFO)):
        with pytest.raises(UsageError, match=r"There is no bucket nowhere at 127\.0\.0\.1"):
            call()
    with pytest.raises(UsageError, match="is not a store"):
        open_store(f"s3://{BUCKET}/nothing")
    (store.root / "deep/er").write(b"x")
    with pytest.raises(UsageError, match="not empty"):
        make_store(f"s3://{BUCKET}/{store.root.key}/deep", INFO)
    with pytest.raises(UsageError, match="slot_seconds 60, not 90"):
        make_store(f"s3://{BUCKET}/{store.root.key}", INFO.model_copy(update={"slot_seconds": 90}))
    (store.root / "store.json").write(b"{")
    with pytest.raises(DamagedCaptureError, match=r"store\.json cannot be read"):
        open_store(f"s3://{BUCKET}/{store.root.key}")


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_told_at_once(place: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """No repetition would help; what they are is not shown."""
    make_store(place, INFO)
    monkeypatch.setenv(name, "wJalrXUtnFEMIwJalrXUtnFEMI")
    s3_objects._storage.cache_clear()
    began = time.monotonic()
    for call in (lambda: open_store(place), lambda: make_store(place, INFO)):
        with pytest.raises(SourceUnreachableError, match="refuses") as caught:
            call()
        assert "wJalrXUtnFEMI" not in f"{caught.value} {caught.value.hint}"
        assert os.environ["AWS_ACCESS_KEY_ID"] not in str(caught.value)
    assert time.monotonic() - began < 10


@pytest.fixture
def weather(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weather]:
    """All ways to the storage lead through it."""
    with proxied(objects) as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{found.port}")
        yield found


def test_half_of_all_answers_may_fail(weather: Weather, place: str, tmp_path: Path) -> None:
    """With an error, cut before they begin (done or not), or in their middle: what is landed and read is whole."""
    weather.fails = 5
    there, here = (land_fleet(at, subscriptions=8, slot_seconds=600) for at in (place, tmp_path / "store"))
    names = [("group-000005", "topic-000001")]
    assert there.samples_of(there.window(), names).equals(here.samples_of(here.window(), names))
    spark: Any = OneTask()
    assert condense_missing(there, spark, there.landed()).condensed == 5
    assert there.prune(END - there.slot) == 4
    assert weather.failed > weather.asked / 3 > 10


def test_a_slow_storage_is_waited_for(weather: Weather, place: str) -> None:
    """Each answer takes a while."""
    weather.delay_seconds = 0.3
    store = make_store(place, INFO)
    store.land(STORY_END, SAMPLES)
    assert len(digests(store)) == 1


@pytest.mark.parametrize("kind", ["fails", "silent", "trickles", "gone"])
def test_a_storage_that_stays_away_is_an_error_after_the_deadline(
    weather: Weather, objects: Objects, place: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also within a landing: nothing of it is believed afterwards, and the former slot stays."""
    store = make_store(place, INFO)
    landed = digests_of(store, HALF)
    monkeypatch.setattr(s3_objects, "DEADLINE_SECONDS", 1.5)
    if kind == "gone":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        store = FleetStore(place=type(store.place)(ObjectFile.at(place)), info=INFO)
    weather.fails, weather.trickles = 10 * (kind == "fails"), kind == "trickles"
    weather.delay_seconds = 60.0 * (kind == "silent")
    began = time.monotonic()
    calls: list[Callable[[], object]] = [
        lambda: store.land(STORY_END, SAMPLES), store.landed, lambda: store.read([STORY_END], whole_file),
        lambda: make_store(place, INFO),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(
            SourceUnreachableError, match=r"neither gives nor takes s3://fleet/.* within 1\.5 s: .+"
        ) as caught:
            call()
        assert caught.value.exit_code == ExitCode.SOURCE and "AWS_ENDPOINT_URL" in str(caught.value.hint)
    assert time.monotonic() - began < 10 * len(calls)
    weather.fails, weather.trickles, weather.delay_seconds = 0, False, 0.0
    monkeypatch.undo()
    for name, value in objects.env().items():
        monkeypatch.setenv(name, value)
    assert tuple(digests(open_store(place))) == landed


def test_a_worker_tells_what_it_cannot_reach(store: FleetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its credentials are its own: an error of its own kind, and no trace of Spark's."""
    store.land(STORY_END, SAMPLES)
    spark: Any = OneTask()
    jobs = condense_file.__globals__["_job"]

    def without(*args: Any) -> Any:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMIwJalrXUtnFEMI")
        s3_objects._storage.cache_clear()
        return jobs(*args)

    monkeypatch.setitem(condense_file.__globals__, "_job", without)
    with pytest.raises(WorkbenchError, match="refuses") as caught:
        condense_missing(store, spark, [STORY_END])
    assert caught.value.exit_code == ExitCode.SOURCE and "own environment" in str(caught.value.hint)


SMALL = "from workbench.cli import main; main()"
LARGE = f"import workbench.sweep.sweep_engine as it; it.SMALL_SAMPLES = 0; {SMALL}"


@pytest.mark.jvm
@pytest.mark.parametrize("program", [SMALL, LARGE], ids=["small", "large"])
def test_findings_are_the_same_to_the_last_byte(objects: Objects, place: str, tmp_path: Path, program: str) -> None:
    """From the shell, of a fleet that is judged from its samples at once, and of one that is condensed first."""
    land_fleet(place, subscriptions=60, slot_seconds=600)
    land_fleet(tmp_path / "store", subscriptions=60, slot_seconds=600)
    shown = []
    for at in (place, str(tmp_path / "store")):
        done = subprocess.run(
            [sys.executable, "-c", program, "triage", "--all", "--store", at, "--json"],
            env={**os.environ, **objects.env(), "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == ExitCode.FINDINGS, done.stderr.decode()
        assert objects.secret.encode() not in done.stdout + done.stderr
        shown.append(done.stdout)
    assert shown[0] == shown[1]
    assert json.loads(shown[0])["subscriptions"] == 60


GONE = (
    "from workbench.sweep.fleet_store_on_s3 import ObjectFiles as it; frame = it.frame;"
    "gone = lambda some: [it.replace('summaries', 'gone') for it in some];"
    f"it.frame = lambda files, spark, some, schema: frame(files, spark, gone(some), schema); {LARGE}"
)


@pytest.mark.jvm
def test_a_summary_that_a_worker_cannot_read_is_told(objects: Objects, place: str) -> None:
    """By a sentence at the end; Spark's own log has told it before."""
    land_fleet(place, subscriptions=8, slot_seconds=600)
    done = subprocess.run(
        [sys.executable, "-c", GONE, "triage", "--all", "--store", place, "--json"],
        env={**os.environ, **objects.env(), "PYTHONPATH": str(ROOT)},
        capture_output=True, timeout=300, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == ExitCode.SOURCE, done.stderr
    assert "Error: A worker of Spark cannot read s3://fleet/" in done.stderr and "Internal error" not in done.stderr
