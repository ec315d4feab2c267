"""A day of a healthy fleet, swept every quarter of an hour: how many alarms it would have raised.

python -m evaluation.stories.day --seed 1 --groups 500 --hours 24

Deploys, hiccups, nights, bursts, a Prometheus that restarts: what a day brings, and nothing that anybody has to do. A few groups more
stop for half an hour at some time; they have to be seen, so that a sweep that clears everything does not pass.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evaluation.stories import END
from evaluation.stories.exporters import CLUSTER
from evaluation.stories.life import DAY, HOUR, MINUTE, Life, Span
from evaluation.stories.truth import Cast, Plan
from workbench.samples import SeriesTable, concat
from workbench.settings_of_groups import GroupSettings
from workbench.sweep.fleet_store import FleetStore, StoreInfo, make_store, open_store
from workbench.sweep.sweep_engine import sweep

SLOT = 900  # seconds: of a window, and between two sweeps
BEFORE = 4  # slots of the first baseline
STOPPED = 0.02  # so many of the groups again stop once
_STOP_SECONDS = 30 * MINUTE


@dataclass(frozen=True, slots=True)
class Member:
    """One group of the fleet: its kind, and when it stops (seconds before the end); None: never."""

    cast: Cast
    stops: float | None


def fleet(seed: int, groups: int, hours: float) -> list[Member]:
    """The groups of a fleet, each of a kind; the same seed gives the same."""
    rng = np.random.default_rng(seed)
    names = list(KINDS)
    found = []
    for number in range(groups + max(1, round(groups * STOPPED))):
        cast = Cast(
            kind=names[number % len(names)],
            number=number + 1,
            tier=("L", "R", "L", "C")[int(rng.integers(4))],  # type: ignore[arg-type]
            scrape=float(rng.choice([15.0, 30.0, 30.0, 60.0])),
            seed=seed,
            turn=number // len(names),
        )
        stops = float(rng.uniform(HOUR, max(hours * HOUR - HOUR, 1.1 * HOUR))) if number >= groups else None
        if stops is not None:
            cast.kind = "usual"
        found.append(Member(cast, stops))
    return found


def _day(cast: Cast, hours: float, **given: float) -> Life:
    """A group over the day: more by day than by night, deploys, hiccups."""
    life = cast.life(loaded=hours * HOUR + BEFORE * SLOT, usage=cast.between(0.15, 0.4), most=12, **given)
    life.rate *= 1 + cast.between(0.1, 0.6) * np.sin(2 * np.pi * (life.t / DAY + cast.rng.uniform()))[None, :]
    for _ in range(cast.any_of(3)):
        _deploy(cast, life, cast.between(10 * MINUTE, hours * HOUR))
    for _ in range(cast.any_of(3)):
        ago = cast.between(5 * MINUTE, hours * HOUR)
        life.stop(None, ago, ago - cast.between(5, 45))
    return life


def _deploy(cast: Cast, life: Life, at: float) -> None:
    """A rolling restart: each member is away for half a minute, one after the other."""
    at += 60 * life.members
    renamed = bool(cast.any_of(2))
    now = [it for it in life.spans if it.start < -at and it.end > 0]
    if len(now) != life.members:
        return  # another deploy is under way then
    for span in now:
        back = at - cast.between(15, 35)
        life.spans.append(Span(span.slot, f"{span.name}x" if renamed else span.name, -back))
        span.end = -at
        life.rebalanced += [-at + 1, -back + 1]
        for moment in (at, back):
            life.stop(None, moment, moment - 5)
            life.state[life.between(moment, moment - 4)] = 2.0
        life.stop(np.flatnonzero(life.owner[:, 0] == span.slot).tolist(), at, back - 3)
        at = back - cast.between(20, 50)


def usual(cast: Cast, hours: float) -> Plan:
    """Consumers that follow what arrives."""
    return cast.well(_day(cast, hours))


def rhythm(cast: Cast, hours: float) -> Plan:
    """Commits every half minute to every ten minutes; the longer ones' settings say so."""
    every = (30, 60, 90, 120, 300, 600)[cast.turn % 6]
    told = GroupSettings(commit_every=timedelta(seconds=every)) if every >= 120 else None
    return cast.well(_day(cast, hours, commit=every), settings=told)


def trickle(cast: Cast, hours: float) -> Plan:
    """A message in some minutes."""
    return cast.well(_day(cast, hours, rate=1 / cast.between(20, 400)))


def office(cast: Cast, hours: float) -> Plan:
    """Nothing arrives at night, and little at the edges of the day."""
    life = _day(cast, hours)
    hour = (life.t / HOUR + END.hour) % 24
    life.rate *= np.clip(np.minimum(hour - 7, 19 - hour), 0, 1)[None, :]
    return cast.well(life)


def bursts(cast: Cast, hours: float) -> Plan:
    """Somebody produces a minute's worth at once, several times a day."""
    life = _day(cast, hours, rate=cast.between(3, 40))
    life.batches = [(cast.between(MINUTE, hours * HOUR), life.usual * 60) for _ in range(10)]
    return cast.well(life)


def idle(cast: Cast, hours: float) -> Plan:
    """Nothing arrives; of some topics a transaction's marker is left at the end."""
    life = _day(cast, hours, rate=0.0)
    life.usual = np.full(life.partitions, 20.0)
    if cast.turn % 2:
        life.extra = dict.fromkeys(range(life.partitions), 1.0)
    return cast.well(life)


def new_protocol(cast: Cast, hours: float) -> Plan:
    """The exporter counts no member, because it asks an old API."""
    life = _day(cast, hours)
    view = cast.view(life)
    view.hidden_members = True
    return cast.well(life, view=view)


def checkpoints(cast: Cast, hours: float) -> Plan:
    """Commits of all partitions at once, every 5 min, by a group without members."""
    life = _day(cast, hours, commit=300)
    life.commit_together = True
    life.state[:] = 1.0
    view = cast.view(life)
    view.hidden_members = True
    return cast.well(life, view=view, settings=GroupSettings(commit_every=timedelta(minutes=5)))


def spikes(cast: Cast, hours: float) -> Plan:
    """Two or three times as much for a minute, over and over; there is room for it."""
    life = _day(cast, hours)
    for _ in range(round(hours * 4)):
        ago = cast.between(0, 1) * hours * HOUR
        life.rate[:, life.between(ago, ago - cast.between(10, 60))] *= cast.between(1.5, 2.5)
    return cast.well(life)


KINDS: dict[str, Callable[[Cast, float], Plan]] = {
    it.__name__: it for it in (usual, rhythm, trickle, office, bursts, idle, new_protocol, checkpoints, spikes)
}


def samples_of(member: Member, hours: float, restart: float) -> tuple[pa.Table, GroupSettings | None]:
    """What the exporters show of one group over the day; for two minutes Prometheus restarts, and shows nothing of anybody."""
    cast = member.cast
    plan = KINDS[cast.kind](cast, hours)
    for view in plan.views:
        view.scraping.missing.append((restart, restart - 2 * MINUTE))
        if member.stops is not None:
            view.life.gone(member.stops, member.stops - _STOP_SECONDS)
        view.tell(inside=cast.runtime, client=cast.others)
    return concat(view.samples() for view in plan.views), plan.settings


def _write(folder: str, hours: float, restart: float, members: tuple[int, list[Member]]) -> dict[str, GroupSettings]:
    """Simulate some groups, and write what is measured of them, a file for each slot."""
    number, chosen = members
    tables, settings = [], {}
    for member in chosen:
        table, told = samples_of(member, hours, restart)
        tables.append(table)
        if told is not None:
            settings[member.cast.group] = told
    together = pa.concat_tables(tables)
    stamps = together["ts"].cast(pa.int64()).to_numpy()
    slots = np.ceil((stamps / 1e6 - END.timestamp()) / SLOT).astype(int)
    for slot in np.unique(slots):
        if slot <= 0:
            where = Path(folder) / f"{-slot:05d}"
            where.mkdir(parents=True, exist_ok=True)
            pq.write_table(together.filter(pa.array(slots == slot)), where / f"{number:04d}.parquet")
    return settings


def landed(root: Path, members: list[Member], *, seed: int, hours: float, workers: int = 2) -> FleetStore:
    """A store with the whole day."""
    restart = float(np.random.default_rng([seed, 7]).uniform(HOUR, hours * HOUR))
    parts = [(at, members[at : at + 10]) for at in range(0, len(members), 10)]
    with tempfile.TemporaryDirectory(dir=root) as folder, ProcessPoolExecutor(workers) as pool:
        settings: dict[str, GroupSettings] = {}
        for told in pool.map(partial(_write, folder, hours, restart), parts):
            settings |= told
        info = StoreInfo(cluster=CLUSTER, slot_seconds=SLOT, profiles=["kafka_exporter", "runtime"], expected=settings)
        store = make_store(root / "store", info)
        for where in sorted(Path(folder).iterdir()):
            samples = pa.concat_tables([pq.read_table(path) for path in sorted(where.iterdir())])
            store.land(END - timedelta(seconds=SLOT) * int(where.name), SeriesTable.of_samples(samples))
    return store


@dataclass(frozen=True, slots=True)
class Said:
    """What one sweep said of one group that is not healthy."""

    at: datetime
    group: str
    verdict: str
    state: str


def swept(store: FleetStore, spark: Any, *, hours: float) -> Iterator[tuple[datetime, int, list[Said]]]:
    """Each window's end, how many were judged, and which are not healthy."""
    count = round(hours * HOUR / SLOT)
    for number in range(count, -1, -1):
        end = END - timedelta(seconds=SLOT) * number
        found = sweep(store, spark, window=store.window_ending(end), top=0)
        unwell = found.table.filter(pc.not_equal(found.table["state"], "healthy")).to_pylist()
        yield (
            end,
            found.table.num_rows,
            [Said(end, row["group"], row["verdict"], row["state"]) for row in unwell],
        )


@dataclass(slots=True)
class Day:
    """All judgements of a day.

    Attributes:
        judged: of healthy groups.
        alarms, unsure: of them, called lagging, or not judged.
        stopped, seen: groups that stopped, and those that a window within the stop has called lagging.
    """

    judged: int
    alarms: list[Said]
    unsure: list[Said]
    stopped: int
    seen: int


def day(store: FleetStore, spark: Any, members: list[Member], *, hours: float, shown: bool = False) -> Day:
    """Sweep the whole day."""
    stops = {it.cast.group: it.stops for it in members if it.stops is not None}
    found, caught = Day(0, [], [], len(stops), 0), set()
    for end, judged, unwell in swept(store, spark, hours=hours):
        ago = (END - end).total_seconds()
        found.judged += judged - len(stops)
        for it in unwell:
            stop = stops.get(it.group)
            if stop is None:
                (found.alarms if it.state == "lagging" else found.unsure if it.state == "cannot_tell" else []).append(
                    it
                )
            elif it.state == "lagging" and stop - _STOP_SECONDS <= ago <= stop:
                caught.add(it.group)
        if shown:
            print(f"{end:%d %H:%M}  {judged} judged, not healthy: {Counter(it.verdict for it in unwell)}", flush=True)
    found.seen = len(caught)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument(
        "--keep", type=Path, help="folder for the store; one of the same seed, groups and hours is used again"
    )
    given = parser.parse_args()
    from workbench.spark.session import end, session

    members = fleet(given.seed, given.groups, given.hours)
    kinds = {it.cast.group: f"{it.cast.kind} [{it.cast.tier}, {it.cast.scrape:g} s]" for it in members}
    with tempfile.TemporaryDirectory() as folder:
        room = given.keep or Path(folder)
        room.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        kept = given.keep is not None and (given.keep / "store").is_dir()
        store = open_store(room / "store") if kept else landed(room, members, seed=given.seed, hours=given.hours)
        print(
            f"{len(members)} groups over {given.hours:g} h, simulated in {time.monotonic() - began:.0f} s", flush=True
        )
        began = time.monotonic()
        spark = session()
        found = day(store, spark, members, hours=given.hours, shown=True)
        end(spark)
    for it in found.alarms:
        print(f"ALARM {it.at:%d %H:%M} {it.group} {kinds[it.group]}: {it.verdict}")
    print("cannot tell:", Counter(kinds[it.group].split(" [")[0] for it in found.unsure) or "none")
    print(
        f"{found.judged} judgements of healthy groups: {len(found.alarms)} alarms, {len(found.unsure)} cannot tell; "
        f"{found.seen} of {found.stopped} stops seen; seed {given.seed}, {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
