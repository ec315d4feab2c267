"""How long a Pulsar keeps where a redrive is: without it, a service would get every letter again."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pulsar.pages import FakeAdmin, serving, subscription, topic
from workbench.pulsar.redrive.pulsar_letter_queue import PulsarLetterQueue
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
