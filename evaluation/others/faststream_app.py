"""A consumer process on FastStream (aiokafka or confluent-kafka), with its own Prometheus middleware and the page of its documents.

Run as `python -m evaluation.others.faststream_app CONFIG.json BEHAVIOUR.json ADDRESS.json`; the last one is written when it is up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, make_asgi_app

from evaluation.others.loop import LoopWork
from evaluation.others.spec import FastStreamConfig
from workbench.files import write_text
from workbench.lab.client_spec import POISON_HEADER, Behaviour, Watched
from workbench.runtime.event import EVENT_TYPE_HEADER

_COMMIT_MS = 1000  # by default five seconds; a lab compresses time


def _broker(config: FastStreamConfig, registry: CollectorRegistry) -> tuple[Any, Callable[..., Any], Any]:
    """The broker, what makes its subscriber, and the type of its messages."""
    named = {"app_name": config.app_name} if config.app_name else {}
    common: dict[str, Any] = {
        "group_id": config.group,
        "auto_offset_reset": "earliest",
        "batch": config.batch,
        **({"max_records": 50} if config.batch else {}),
        **({"max_workers": config.workers} if config.workers > 1 else {}),
    }
    common |= {name.replace(".", "_"): value for name, value in config.kafka.items()}
    kind = {"aiokafka": "faststream.kafka", "confluent": "faststream.confluent"}[config.library]
    library, metrics = import_module(kind), import_module(f"{kind}.prometheus")
    broker = library.KafkaBroker(
        config.bootstrap,
        middlewares=[metrics.KafkaPrometheusMiddleware(registry=registry, **named)],
        logger=None,
        **config.client,
    )
    if config.ack:
        from faststream import AckPolicy

        common["ack_policy"] = AckPolicy(config.ack)
    if config.ack in ("", "ack_first"):
        common["auto_commit_interval_ms"] = _COMMIT_MS
    return broker, lambda: broker.subscriber(config.topic, **common), library.KafkaMessage


def _headers(record: Any) -> dict[str, bytes]:
    found = record.headers
    return dict((found() if callable(found) else found) or ())


async def run(config: FastStreamConfig, work: LoopWork, address: Path) -> None:
    """Until SIGTERM."""
    from faststream.asgi import AsgiFastStream

    registry = CollectorRegistry()
    broker, subscriber, message_type = _broker(config, registry)

    def one(record: Any) -> None:
        headers = _headers(record)
        poison = POISON_HEADER in headers
        if poison and config.crashes:
            os._exit(1)
        work.work(headers.get(EVENT_TYPE_HEADER, b"").decode(), poison=poison)

    async def handle(message):  # type: ignore[no-untyped-def] # its type is set below: it is that of the library
        raw = message.raw_message
        for record in raw if isinstance(raw, tuple) else (raw,):
            if config.blocking:
                one(record)
            else:
                await asyncio.to_thread(one, record)

    handle.__annotations__ = {"message": message_type}
    subscriber()(handle)
    app = AsgiFastStream(
        broker,
        asgi_routes=[("/metrics", make_asgi_app(registry))],
        after_startup=[lambda: write_text(address, json.dumps({"metrics": f"127.0.0.1:{config.metrics_port}"}))],
    )
    await app.run(log_level=logging.WARNING, run_extra_options={"host": "127.0.0.1", "port": config.metrics_port})


def main(config: Path, behaviour: Path, address: Path) -> None:
    """Run until SIGTERM."""
    over = threading.Event()
    settings = FastStreamConfig.model_validate_json(config.read_text(encoding="utf-8"))
    work = LoopWork(Watched(behaviour, Behaviour), name=settings.client_id, over=over)
    asyncio.run(run(settings, work, address))
    os._exit(0)  # a handler that hangs in its thread would keep the process


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
