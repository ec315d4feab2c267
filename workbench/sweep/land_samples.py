"""Landing: query a live cluster for the missing and incomplete slots of a store's window, slot by slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from workbench.background import in_background
from workbench.collect.samples_from_prometheus import Collected
from workbench.errors import NoSeriesError, SourceUnreachableError
from workbench.sweep.fleet_store import FleetStore
from workbench.window import Window

# Queries the sources for one slot, as `collect.capture_in_memory.collect_series` does.
Ask = Callable[[Window], Collected]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """Result of a landing; `sources` says how many sources measured the same."""

    slots: int
    rows: int
    sources: tuple[str, ...] = ()


def wanting(store: FleetStore, window: Window) -> list[datetime]:
    """Ends of a window's slots that are missing, incomplete, or were read by other settings."""
    return _wanting(store, window, _here(store, window))


def _here(store: FleetStore, window: Window) -> set[datetime]:
    return set(store.landed_of(window, read_as=store.reading))


def _wanting(store: FleetStore, window: Window, here: Set[datetime]) -> list[datetime]:
    return [end for end in store.slots_of(window) if end not in here or store.missing_of(end)]


def land_missing(store: FleetStore, window: Window, ask: Ask) -> Landed:
    """Land the missing slots of a window. An incomplete slot lands as well, and is marked until it is complete.

    Raises:
        NoSeriesError: if the window's own slot has no data. Older slots may be beyond the source's retention; they do
        not land then.
        SourceUnreachableError: if the source does not answer for a slot that has not landed.
    """
    slots = rows = 0
    sources: dict[str, None] = {}
    here = _here(store, window)
    for end, answer in _one_ahead(_wanting(store, window, here), store, ask):
        try:
            found = answer.result()
        except NoSeriesError:
            if end == window.end and end not in here:
                raise
            continue
        except SourceUnreachableError:
            if end not in here:
                raise
            continue  # an incomplete slot is better than none
        # Incomplete again, perhaps with another part of the data: keep the larger one, so no sample is lost.
        if found.incomplete and end in here and len(found.series.ts_us) <= store.rows_of(end):
            continue
        store.land(end, found.series, missing=found.incomplete)
        sources |= dict.fromkeys(found.sources)
        slots, rows = slots + 1, rows + len(found.series.ts_us)
        del found, answer  # free it before the next one: a slot of a large fleet takes some hundred MB
    return Landed(slots=slots, rows=rows, sources=tuple(sources))


def _one_ahead(ends: Sequence[datetime], store: FleetStore, ask: Ask) -> Iterator[tuple[datetime, Future[Collected]]]:
    """Each slot's answer. While it is landed, the source is asked for the next one; two at once would need twice the memory."""

    def begin(end: datetime) -> Future[Collected]:
        slot = Window(baseline_start=end - store.slot, start=end - store.slot, end=end)
        return in_background(partial(ask, slot), name="landing")

    if not ends:
        return
    asked = begin(ends[0])
    for end, following in zip(ends, [*ends[1:], None], strict=True):
        answer = asked
        wait([answer])
        if following is not None:
            asked = begin(following)
        yield end, answer
        del answer
