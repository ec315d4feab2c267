"""A server of these tests: a judge that is told what to say, a sender that notes what it is given, a clock that stands."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn

from workbench.lab.process import free_port
from workbench.serve.access import Access
from workbench.serve.app import Server, application
from workbench.serve.connection_limits import Connections
from workbench.serve.judge_groups import Question
from workbench.serve.kept_verdict import Judged
from workbench.serve.outbox import Parcel
from workbench.serve.server import Options, bound, configured
from workbench.serve.server_database import Store
from workbench.serve.sqlite import FileStore
from workbench.serve.worker import Worker
from workbench.serve_settings import ServeSettings, Target

TOKEN = "a-token-of-these-tests-only"
HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m@everyone <!channel> \"'&\r\nBcc: a@b.c"
NOW = 1_795_400_000.0


@dataclass
class Clock:
    """Seconds since 1970, as told."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


def judged(group: str = "payments", topic: str = "orders", verdict: str = "slow_processor", **values: Any) -> Judged:
    """A verdict; its state follows from its name."""
    states = {"healthy": "healthy", "recovered": "healthy", "cannot_tell": "cannot_tell"}
    given = {
        "state": states.get(verdict, "lagging"), "headline": f"{group} is {verdict}.", "cause": verdict,
        "time_lag_seconds": 600.0, "lag_messages": 1000, **values,
    }  # fmt: skip
    return Judged(group=group, topic=topic, verdict=verdict, **given)


@dataclass
class Oracle:
    """Judges as told; notes its questions."""

    says: Callable[[Question], Sequence[Judged]] = lambda _question: [judged()]
    questions: list[Question] = field(default_factory=list)

    def __call__(self, question: Question) -> Sequence[Judged]:
        self.questions.append(question)
        return self.says(question)


@dataclass
class Postman:
    """Notes what it is to send; `fails` are raised first."""

    parcels: list[Parcel] = field(default_factory=list)
    fails: list[Exception] = field(default_factory=list)

    def __call__(self, parcel: Parcel, _target: Target, _url: str | None) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.parcels.append(parcel)

    @property
    def kinds(self) -> list[str]:
        return [it.message.kind for it in self.parcels]


SLACK = Target(name="oncall", kind="slack", url="http://127.0.0.1:9/services/a-secret-path")


# What an office keeps its database in; the tests with PostgreSQL put theirs here.
DATABASE: Callable[[Path, Clock], Store] | None = None


def database(folder: Path, clock: Clock) -> Store:
    """A new database: a file, if nothing else is said."""
    return FileStore(folder / "serve.sqlite", clock=clock) if DATABASE is None else DATABASE(folder, clock)


class Office:
    """A worker without threads: each step is called by the test."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock, self.oracle, self.postman = Clock(), Oracle(), Postman()
        self.settings = ServeSettings(**{"targets": [SLACK], "gather": "PT0S", **settings})
        self.folder, self.store = folder, database(folder, self.clock)
        self.worker = Worker(self.store, self.oracle, self.settings, sender=self.postman)

    def send(self) -> list[str]:
        """Send everything that is due; the kinds of all messages so far."""
        for target in self.settings.targets:
            while self.worker.send_one(target):
                pass
        return self.postman.kinds


def alert(
    group: str = "payments", topic: str = "orders", *, number: int = 0, status: str = "firing", **labels: str
) -> Any:
    """One alert, as Alertmanager posts it."""
    started = datetime.fromtimestamp(NOW - 60, UTC).isoformat()
    named = {"alertname": "ConsumerLag", "cluster": "prod", "consumergroup": group, "topic": topic, **labels}
    return {
        "status": status, "labels": named, "annotations": {"summary": HOSTILE}, "startsAt": started,
        "generatorURL": "http://169.254.169.254/latest", "fingerprint": f"{hash((group, topic, number)) & 0xFFFFFFFFFFFF:x}",
    }  # fmt: skip


def webhook(*alerts: Any) -> str:
    """Alertmanager's message."""
    return json.dumps({"version": "4", "status": "firing", "alerts": alerts, "externalURL": "http://169.254.169.254"})


@dataclass
class Running:
    """A server on loopback."""

    url: str
    store: Store
    worker: Worker
    port: int
    connections: Connections


@contextmanager
def running(
    office: Office, *, threads: bool = True, most: int | None = None, options: Options | None = None, **values: Any
) -> Iterator[Running]:
    """Serve until the end of the block, on a free port; `most`: connections."""
    port = free_port()
    options = replace(options or Options(), port=port)
    access = Access(office.store, office.folder / "token", environment={"WORKBENCH_SERVE_TOKEN": TOKEN})
    server = Server(store=office.store, access=access, worker=office.worker, settings=office.settings, **values)
    connections = Connections(most)
    config = configured(application(server), options, connections, lifespan="off")
    listener = bound(options, connections)
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, args=([listener],), daemon=True)
    if threads:
        office.worker.start()
    thread.start()
    deadline = time.monotonic() + 20
    while not serving.started:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    try:
        yield Running(
            url=f"{'http' if options.certificate is None else 'https'}://127.0.0.1:{port}",
            store=office.store,
            worker=office.worker,
            port=port,
            connections=connections,
        )
    finally:
        serving.should_exit = True
        thread.join(20)
        if threads:
            office.worker.stop()
