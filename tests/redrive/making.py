"""Letters, plans and cluster states for the tests without Kafka."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.redrive.fakes import FakeCluster
from tests.replay.fakes import FakeGateway
from workbench.redrive.guard import RedriveNow
from workbench.redrive.letter_headers import ROUND_HEADER, Letter
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.plan import RedriveRequest, make_redrive_plan
from workbench.redrive.planfile import Destination, RedrivePlan, To
from workbench.redrive.redrive_ledger import Ledger

TOPIC, SOURCE = "orders-dlt", "orders"


def letter_of(
    partition: int,
    offset: int,
    key: bytes | None = b"k",
    origin: tuple[int, int] | None = (0, 0),
    error: str = "Timeout",
    rounds: int = 0,
    number: int = 0,
) -> Letter:
    """A letter of our runtime, with the origin's partition and offset."""
    headers: list[tuple[str, bytes | None]] = [
        ("event_type", b"order"),
        ("wb_topic", SOURCE.encode()),
        ("wb_code", error.encode()),
    ]
    if origin is not None:
        headers += [("wb_partition", str(origin[0]).encode()), ("wb_offset", str(origin[1]).encode())]
    if rounds:
        headers.append((ROUND_HEADER, str(rounds).encode()))
    return Letter(partition, offset, 1_700_000_000_000 + number, key, b"v%d" % number, headers)


LETTERS = [letter_of(0, at, b"k%d" % at, (0, at)) for at in range(10)]


def gateway_of(letters: list[Letter]) -> FakeGateway:
    """A cluster with those letters and an empty source topic of two partitions."""
    records = {
        (TOPIC, number): [(it.offset, it.timestamp_ms) for it in letters if it.partition == number]
        for number in range(3)
    }
    return FakeGateway({**records, (SOURCE, 0): [], (SOURCE, 1): []})


def plan_from(
    letters: list[Letter], request: RedriveRequest | None = None, *, gateway: FakeGateway | None = None
) -> RedrivePlan:
    """A plan of these letters."""
    asked = request or RedriveRequest(cluster="mine", topic=TOPIC, destination=Destination(kind=To.SOURCE))
    return make_redrive_plan(asked, gateway or gateway_of(letters), FakeCluster(letters), lambda _topic: 1 << 20)


def now_of(
    plan: RedrivePlan,
    cluster: FakeCluster,
    ledger: Ledger,
    *,
    handled: Mapping[int, Picks] | None = None,
    age_seconds: float = 0.0,
) -> RedriveNow:
    """The state of that cluster for the safety checks."""
    gateway = gateway_of(cluster.letters)
    return RedriveNow(
        cluster=gateway.cluster([plan.topic, SOURCE]),
        logs=gateway.logs([(plan.topic, part.partition) for part in plan.partitions]),
        settings=gateway.settings([plan.topic]),
        positions=dict(cluster.positions),
        ordered=cluster.ordered,
        handled=handled or {},
        now_ms=(time.time() + age_seconds) * 1000,
        position_kept_seconds=7 * 86_400.0,
        was_started=ledger.was_started(plan) and ledger.ended(plan) is None,
    )
