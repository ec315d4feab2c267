"""Landing: what a window of a store lacks is asked of a live cluster, slot by slot, and what was incomplete is asked for again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from workbench.collect.prometheus import Collected
from workbench.errors import NoSeriesError, SourceUnreachableError
from workbench.sweep.store import Store
from workbench.window import Window

# Asks the sources for one slot, as `collect.live.collect_series` does.
Ask = Callable[[Window], Collected]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What a landing brought."""

    slots: int
    rows: int


def wanting(store: Store, window: Window) -> list[datetime]:
    """The ends of a window's slots that have not landed, or not whole."""
    here = set(store.landed())
    return [end for end in store.slots_of(window) if end not in here or store.missing_of(end)]


def land_missing(store: Store, window: Window, ask: Ask) -> Landed:
    """Land what a window lacks. A slot that is incomplete lands all the same, and says so until it is whole.

    Raises:
        NoSeriesError: if there is nothing in the window's own slot. An older one may be beyond what the source keeps: then it does
            not land.
        SourceUnreachableError: if the source does not answer for a slot that has not landed.
    """
    slots = rows = 0
    here = set(store.landed())
    for end in wanting(store, window):
        try:
            found = ask(Window(baseline_start=end - store.slot, start=end - store.slot, end=end))
        except NoSeriesError:
            if end == window.end and end not in here:
                raise
            continue
        except SourceUnreachableError:
            if end not in here:
                raise
            continue  # what has landed of it is better than nothing
        # Incomplete again, and of another part of the source: what is more stays, so that no sample is lost by asking.
        if found.incomplete and end in here and len(found.series.ts_us) <= store.rows_of(end):
            continue
        store.land(end, found.series, missing=found.incomplete)
        slots, rows = slots + 1, rows + len(found.series.ts_us)
        del found  # not beside the next one: a slot of a large fleet is some hundred MB
    return Landed(slots=slots, rows=rows)
