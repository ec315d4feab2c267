"""Signals of the processes that consumers run in: how long they could not run at all; a part of `workbench.signals`."""

from __future__ import annotations

# Name, unit, help. Of a process, which may have several clients: they count for its group, and are no member of it.
OF_PROCESSES: tuple[tuple[str, str, str], ...] = (
    (
        "cpu_periods",
        "periods",
        "Periods of its CPU limit in which a process ran, and those of them in which the limit stopped it (`stat`: all, stopped).",
    ),
    (
        "gc_time",
        "seconds",
        "Time that a process stood still while it collected garbage, and all of the time in which it told so (`stat`: stopped, all).",
    ),
)
