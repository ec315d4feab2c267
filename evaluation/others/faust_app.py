"""A consumer process on Faust (faust-streaming) with its own Prometheus sensor.

Run as `python -m evaluation.others.faust_app CONFIG.json BEHAVIOUR.json ADDRESS.json`; the last one is written when it is up.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path

from evaluation.others.loop import LoopWork
from evaluation.others.spec import FaustConfig
from workbench.files import write_text
from workbench.lab.client_spec import POISON_HEADER, Behaviour, Watched
from workbench.runtime.event import EVENT_TYPE_HEADER

_RETRY_SECONDS = 1.0


def main(config: Path, behaviour: Path, address: Path) -> None:
    """Run until SIGTERM."""
    import faust
    from faust.sensors.prometheus import setup_prometheus_sensors

    settings = FaustConfig.model_validate_json(config.read_text(encoding="utf-8"))
    work = LoopWork(Watched(behaviour, Behaviour), name=settings.client_id, over=threading.Event())
    app = faust.App(
        settings.group,
        broker=f"kafka://{settings.bootstrap}",
        broker_commit_interval=1.0,  # by default 2.8 s; a lab compresses time
        consumer_auto_offset_reset="earliest",
        web_host="127.0.0.1",
        web_port=settings.metrics_port,
        datadir=str(config.with_name(f"{settings.client_id}-data")),
        topic_disable_leader=True,
        **settings.faust,
    )
    setup_prometheus_sensors(app, pattern="/metrics", **({"name_prefix": settings.prefix} if settings.prefix else {}))
    topic = app.topic(settings.topic, key_serializer="raw", value_serializer="raw")

    def one(event_type: str, poison: bool) -> None:
        if poison and settings.crashes:
            os._exit(1)
        work.work(event_type, poison=poison)

    @app.agent(topic, concurrency=settings.concurrency)
    async def handle(stream):  # type: ignore[no-untyped-def] # a stream of faust
        async for event in stream.events():
            headers = dict(event.headers or {})
            kind = headers.get(EVENT_TYPE_HEADER, b"").decode()
            while True:
                try:
                    if settings.blocking:
                        one(kind, POISON_HEADER in headers)
                    else:
                        await asyncio.to_thread(one, kind, POISON_HEADER in headers)
                except ValueError:
                    if not settings.retries:
                        raise
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    break

    @app.task
    async def _announce() -> None:
        write_text(address, json.dumps({"metrics": f"127.0.0.1:{settings.metrics_port}"}))

    sys.argv = ["faust", "worker", "-l", "warn"]
    try:
        app.main()
    finally:
        os._exit(0)  # a handler that hangs in its thread would keep the process


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
