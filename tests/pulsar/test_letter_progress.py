"""How long a Pulsar keeps where a redrive is: without it, a service would get every letter again."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pulsar.pages import FakeAdmin, partitioned, serving, subscription, topic
from workbench.pulsar.redrive.pulsar_letter_queue import PulsarLetterQueue
from workbench.pulsar.redrive.topics_and_progress import POSITION, PulsarLetterGateway
from workbench.queues.group_kinds import REDRIVE_PREFIX
from workbench.redrive.planfile import To

LETTERS = "public/default/orders-DLQ"
POLICY = "namespaces/public/default/subscriptionExpirationTime"
RUNNING = "brokers/configuration/runtime"


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ({POLICY: 30}, 1_800.0),
        ({POLICY: 0, RUNNING: {"subscriptionExpirationTimeMinutes": "5"}}, math.inf),  # the namespace's counts
        ({POLICY: None, RUNNING: {"subscriptionExpirationTimeMinutes": "5"}}, 300.0),
        ({POLICY: b"", RUNNING: {"subscriptionExpirationTimeMinutes": "0"}}, math.inf),
        ({POLICY: b""}, None),
        ({}, None),
    ],
)
def test_positions_of_letters_over_http_last_as_long_as_a_subscription(told: Any, seconds: float | None) -> None:
    """By the namespace's policy, or the broker's setting; of messages, the targets tell what was produced, however old the plan is."""
    admin = FakeAdmin(
        {LETTERS: topic(billing=subscription())}, extra={f"persistent/{LETTERS}/partitions": {"partitions": 0}, **told}
    )
    with (
        serving(admin, service_url="pulsar://127.0.0.1:1") as (cluster, _),
        nullcontext(PulsarLetterQueue(cluster)) as letters,
    ):
        kept = [
            letters.position_kept_seconds(SimpleNamespace(topic=LETTERS, destination=SimpleNamespace(kind=kind)))  # type: ignore[arg-type]
            for kind in (To.HTTP, To.TOPIC)
        ]
    assert kept == [seconds, math.inf]


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_a_plan_is_found_on_whatever_partition_its_letters_are(partition: int) -> None:
    """From any machine: another plan would produce the same letters once more."""
    plan = f"{REDRIVE_PREFIX}1"
    own = subscription(subscriptionProperties={POSITION: "7"})
    parts = {number: topic(**{plan: own} if number == partition else {}) for number in range(3)}
    told = {f"persistent/{LETTERS}-partition-{number}/stats": it for number, it in parts.items()}
    admin = FakeAdmin(
        {LETTERS: partitioned(LETTERS, parts, of=3)},
        extra={f"persistent/{LETTERS}/partitions": {"partitions": 3}, **told},
    )
    with serving(admin) as (cluster, _):
        gateway = PulsarLetterGateway(cluster)
        gateway.cluster([LETTERS])
        assert gateway.plans() == [plan]
        assert gateway.commits(plan) == {(LETTERS, partition): 7}
