"""Landing out of a live source: what was incomplete stays known as such, and is asked for again until it is whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.collect.test_samples_from_prometheus import LAG, body
from tests.fleet import END, land_fleet, slot_series
from tests.servers import Script, scripted
from workbench.collect import capture_in_memory
from workbench.collect.capture import read_capture, write_capture
from workbench.collect.samples_from_prometheus import Collected
from workbench.errors import NoSeriesError, SourceUnreachableError, WorkbenchError
from workbench.settings import Cluster
from workbench.sweep.fleet_store import FleetStore
from workbench.sweep.land_samples import land_missing, wanting
from workbench.sweep.read_store import whole_file
from workbench.thresholds import Thresholds
from workbench.window import Window

SILENT = "store 7 is silent"


@pytest.fixture
def store(tmp_path: Path) -> FleetStore:
    """Empty, with slots of ten minutes."""
    return land_fleet(tmp_path / "store", subscriptions=4, slot_seconds=600, slots=0)


class Source:
    """Answers for each slot with some subscriptions of a fleet, or an error; keeps what it was asked."""

    def __init__(self) -> None:
        self.subscriptions = 4
        self.missing: list[str] = []
        self.refusals: dict[datetime, WorkbenchError] = {}
        self.asked: list[datetime] = []

    def __call__(self, window: Window) -> Collected:
        self.asked.append(window.end)
        if window.end in self.refusals:
            raise self.refusals[window.end]
        return Collected(series=slot_series(self.subscriptions, window.end, 600, 30), incomplete=tuple(self.missing))


def test_what_is_incomplete_is_asked_for_again_until_it_is_whole(store: FleetStore) -> None:
    """It lands, for a part is better than nothing; and what is whole is never asked for again."""
    window, source = store.window_ending(END), Source()
    source.missing, source.subscriptions = [SILENT], 2
    assert land_missing(store, window, source).slots == 5
    assert {store.missing_of(end) for end in store.slots_of(window)} == {(SILENT,)}
    assert wanting(store, window) == store.slots_of(window)
    few = store.rows_of(END)
    source.missing, source.subscriptions = [], 4
    assert land_missing(store, window, source).slots == 5
    assert store.missing_of(END) == ()
    assert store.rows_of(END) > few
    source.asked.clear()
    assert land_missing(store, window, source).slots == 0
    assert source.asked == []


def test_asking_again_loses_nothing(store: FleetStore) -> None:
    """Neither by an answer with less, nor by none; what is more is taken, though it is not all."""
    window, source = store.window_ending(END), Source()
    source.missing, source.subscriptions = [SILENT], 3
    land_missing(store, window, source)
    landed = store.rows_of(END)
    source.subscriptions = 1
    assert land_missing(store, window, source).slots == 0
    for refusal in (NoSeriesError("nothing"), SourceUnreachableError("nobody")):
        source.refusals = dict.fromkeys(store.slots_of(window), refusal)
        assert land_missing(store, window, source).slots == 0
    assert store.rows_of(END) == landed
    assert store.missing_of(END) == (SILENT,)
    source.refusals, source.subscriptions = {}, 4
    land_missing(store, window, source)
    assert store.rows_of(END) > landed
    assert store.missing_of(END) == (SILENT,)


def test_the_next_slot_is_asked_for_while_one_is_landed(store: FleetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never two at once: their answers would be in memory together."""
    window, source, asking = store.window_ending(END), Source(), threading.Lock()
    begun = {end: threading.Event() for end in store.slots_of(window)}
    real = FleetStore.land

    def ask(slot: Window) -> Collected:
        assert asking.acquire(blocking=False)
        begun[slot.end].set()
        found = source(slot)
        asking.release()
        return found

    def land(self: FleetStore, end: datetime, *series: Any, **more: Any) -> Any:
        following = end + self.slot
        assert following not in begun or begun[following].wait(20)
        return real(self, end, *series, **more)

    monkeypatch.setattr(FleetStore, "land", land)
    assert land_missing(store, window, ask).slots == 5
    assert source.asked == store.slots_of(window)
    assert all(store.rows_of(end) for end in source.asked)


@pytest.mark.parametrize("error", [NoSeriesError, SourceUnreachableError])
def test_what_has_never_landed_is_no_slot(store: FleetStore, error: Callable[[str], WorkbenchError]) -> None:
    """The judged slot must be there, older ones may be beyond the source's memory; a source that is silent is an error."""
    window, source = store.window_ending(END), Source()
    first = store.slots_of(window)[0]
    source.refusals = {END: error("no"), first: NoSeriesError("too long ago")}
    with pytest.raises(WorkbenchError, match="no"):
        land_missing(store, window, source)
    del source.refusals[END]
    land_missing(store, window, source)
    assert store.landed() == store.slots_of(window)[1:]


@pytest.mark.parametrize(
    "extra", [{"warnings": [f"{number} {'x' * 400}" for number in range(20)]}, {"isPartial": True}]
)
def test_a_partial_answer_is_known_as_such_in_a_slot_and_in_a_saved_capture(
    store: FleetStore, tmp_path: Path, extra: dict[str, object]
) -> None:
    """From the server's own words to what lies on the disk."""
    with scripted(Script(body=body((LAG, [[END.timestamp(), "1"]]), **extra))) as server:
        cluster = Cluster(name="fleet", prometheus=server.url, profiles=["kafka_exporter"])
        window = store.window_ending(END)
        land_missing(store, window, lambda slot: capture_in_memory.collect_series(cluster, slot))
        saved = capture_in_memory.collect(cluster, window, thresholds=Thresholds())
    assert len(store.missing_of(END)) == len(extra.get("warnings", [1]))  # type: ignore[arg-type]
    write_capture(tmp_path / "saved", saved)
    assert tuple(read_capture(tmp_path / "saved").info.incomplete) == store.missing_of(END)


def test_kafka_is_asked_only_where_samples_need_its_members(tmp_path: Path) -> None:
    """Its silence is no hole in samples that name their group; it is one where clients are joined to groups."""
    with scripted(Script(body=body((LAG, [[END.timestamp(), "1"]])))) as server:
        for profiles, silent in ((["kafka_exporter"], 0), (["kafka_exporter", "micrometer"], 1)):
            cluster = Cluster(
                name="c", prometheus=server.url, profiles=profiles, bootstrap="127.0.0.1:9", timeout_seconds=1
            )
            window = Window.ending(END, length=END - END.replace(hour=11), baseline=END - END.replace(hour=11))
            assert len(capture_in_memory.collect_series(cluster, window).incomplete) == silent


def test_what_was_read_by_other_settings_is_read_again(tmp_path: Path) -> None:
    """A corrected unit, a further exporter, another tenant: samples of two readings are never judged together."""
    first = land_fleet(tmp_path / "store", subscriptions=4, slot_seconds=600, slots=0)
    before, now = replace(first, reading="before"), replace(first, reading="now")
    window, source = first.window_ending(END), Source()
    assert land_missing(before, window, source).slots == 5
    assert wanting(before, window) == []
    assert wanting(now, window) == first.slots_of(window)
    source.refusals = dict.fromkeys(first.slots_of(window)[:3], NoSeriesError("beyond its retention"))
    assert land_missing(now, window, source).slots == 2
    alike = first.slots_of(window)[3:]
    assert now.landed_of(window) == first.landed_of(window) == alike
    assert {file.end for file, _ in first.read(first.landed_of(window), whole_file)} == set(alike)
    seen = first.samples_of(window, [("group-000000", "topic-000000")])["ts"]
    assert min(seen.to_pylist()) > first.slots_of(window)[2]
    source.refusals = {END: SourceUnreachableError("nobody")}
    with pytest.raises(SourceUnreachableError):  # what another reading has landed answers nothing
        land_missing(replace(first, reading="later"), first.window_ending(END), source)


def test_slots_of_earlier_versions_count(store: FleetStore) -> None:
    """They do not say how they were read."""
    window, source = store.window_ending(END), Source()
    land_missing(store, window, source)
    assert wanting(replace(store, reading="now"), window) == []


def test_a_reading_is_what_decides_which_samples_there_are(tmp_path: Path) -> None:
    """Not the credentials, which are renewed, nor what is expected of groups."""
    profile = tmp_path / "ours.yaml"
    text = "title: ours\nsignals:\n  group_members: {metric: m, labels: {group: g}, scale: SCALE}\n"
    profile.write_text(text.replace("SCALE", "1"))
    one = Cluster(name="c", prometheus="http://a:9090", profiles=[str(profile)])
    reading = capture_in_memory.reading_of(one)
    tokens = {"Authorization": "Bearer x", "X-Api-Key": "y", "Cookie": "z"}
    assert capture_in_memory.reading_of(one.model_copy(update={"prometheus_headers": tokens})) == reading
    assert capture_in_memory.reading_of(one.model_copy(update={"timeout_seconds": 5.0})) == reading
    others = [
        one.model_copy(update={"prometheus_headers": {"X-Scope-OrgID": "b"}}),
        one.model_copy(update={"prometheus": "http://b:9090"}),
        one.model_copy(update={"profiles": [str(profile), "runtime"]}),
        one.model_copy(update={"members": {"app": "payments"}}),
        one.model_copy(update={"copies": ["zone"]}),
    ]
    assert len({reading, *map(capture_in_memory.reading_of, others)}) == 6
    profile.write_text(text.replace("SCALE", "0.001"))
    assert capture_in_memory.reading_of(one) != reading
