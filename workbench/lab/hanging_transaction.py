"""A producer process that begins a transaction, writes a record into each partition, and neither commits nor aborts it.

Run as `python -m workbench.lab.hanging_transaction TRANSACTION.json OPEN`; the file OPEN is written when the records are in the log.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from workbench.files import write_text
from workbench.lab.client_spec import Transaction
from workbench.runtime.event import EVENT_TYPE_HEADER

_TIMEOUT_MS = 600_000  # longer than a run: the coordinator does not end it
_SECONDS = 30.0


def main(path: Path, announce: Path) -> None:
    """Hold the transaction open until killed."""
    told = Transaction.model_validate_json(path.read_text(encoding="utf-8"))
    producer = Producer(
        {
            "bootstrap.servers": told.bootstrap,
            "transactional.id": told.transactional_id,
            "transaction.timeout.ms": _TIMEOUT_MS,
            "log_level": 3,
        }
    )
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for partition in told.partitions:
        producer.produce(told.topic, b"x", partition=partition, headers=[(EVENT_TYPE_HEADER, told.event_type.encode())])
    producer.flush(_SECONDS)
    write_text(announce, "open")
    while True:
        producer.poll(0)
        time.sleep(1.0)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:3]))
