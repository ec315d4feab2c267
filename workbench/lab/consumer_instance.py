"""A consumer process: one instance of the reference runtime whose handlers behave as a file says.

Run as `python -m workbench.lab.consumer_instance CONFIG.json BEHAVIOUR.json ADDRESS.json`; the last one is written when it is up.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
import zlib
from pathlib import Path

from workbench.files import write_text
from workbench.lab.client_spec import POISON_HEADER, Behaviour, Watched
from workbench.runtime import Dead, Event, Record, Runtime, RuntimeConfig, decode_by_header

_REFRESH_SECONDS = 0.2


class Handlers:
    """The fault-driven business logic of the lab."""

    def __init__(self, behaviour: Watched[Behaviour], *, name: str) -> None:
        self._name = name
        self._worked_since = time.monotonic()
        self._watched = behaviour
        self._behaviour = behaviour.current
        self._random = random.Random()  # noqa: S311 - jitter
        self.held = False  # whether the behaviour wants this instance to read nothing
        threading.Thread(target=self._refresh, name="behaviour", daemon=True).start()

    def _refresh(self) -> None:
        while True:
            time.sleep(_REFRESH_SECONDS)
            self._behaviour = self._watched.refresh()
            self.held = self._name in self._behaviour.held_members

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            jitter = self._behaviour.jitter
            time.sleep(seconds * self._random.uniform(1 - jitter, 1 + jitter))

    def decode(self, record: Record) -> Event:
        """Decode, taking as long as the behaviour says; now and then the whole consumer thread may stall here."""
        behaviour = self._behaviour
        if self._name in behaviour.stall_members:
            self._stall(behaviour)
        self._sleep(behaviour.decode_seconds)
        event = decode_by_header(record)
        delay = behaviour.delay_seconds.get(event.type, 0.0)
        if delay > 0:
            event.delay_until_ms = round(record.timestamp_ms + delay * 1000)
        return event

    def _stall(self, behaviour: Behaviour) -> None:
        """Not polling, while the client's own thread goes on with its heartbeats: what a blocking call does."""
        if time.monotonic() - self._worked_since < behaviour.stall_pause_seconds:
            return
        time.sleep(behaviour.stall_seconds)
        self._worked_since = time.monotonic()

    def handle(self, event: Event) -> Dead | None:
        """Handle one event, taking as long as the behaviour says; some are given up."""
        if self._behaviour.poison_fails and event.record.header(POISON_HEADER) is not None:
            raise ValueError("this record cannot be handled")
        self._sleep(self._behaviour.process_seconds.get(event.type, 0.0))
        share = self._behaviour.dead_share.get(event.type, 0.0)
        # The same events, however often they are tried.
        chance = zlib.crc32(f"{event.record.partition}/{event.record.offset}".encode()) / 2**32
        return Dead("refused") if chance < share else None


def _hold(runtime: Runtime, handlers: Handlers) -> None:
    """Pause and resume as the behaviour says: the drain that somebody has asked for, and forgotten."""
    while True:
        if handlers.held and not runtime.task.is_held:
            runtime.task.drain()
        elif not handlers.held and runtime.task.is_held:
            runtime.task.resume()
        time.sleep(_REFRESH_SECONDS)


def main(config: Path, behaviour: Path, address: Path) -> None:
    """Run until SIGTERM."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    settings = RuntimeConfig.parse(json.loads(config.read_text(encoding="utf-8")), where=str(config))
    handlers = Handlers(Watched(behaviour, Behaviour), name=settings.client_id)
    runtime = Runtime(settings, dict.fromkeys(settings.processors, handlers.handle), decode=handlers.decode)
    runtime.start()
    assert runtime.metrics_address is not None  # noqa: S101 - start() sets it
    write_text(address, json.dumps({"metrics": "{}:{}".format(*runtime.metrics_address)}))
    threading.Thread(target=_hold, args=(runtime, handlers), name="hold", daemon=True).start()
    runtime.wait()


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
