"""What the snapshot makes of a broker's refusals (the rest is tested on a real one, in tests/lab)."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.collect.answers import done
from workbench.errors import SourceUnreachableError
from workbench.kafka import cluster_snapshot as kafka
from workbench.kafka.cluster_snapshot import KafkaCluster


class LoadingAdmin:
    """An admin client whose coordinator is busy for some calls, then knows no group."""

    def __init__(
        self, refusals: int, code: int = KafkaError.COORDINATOR_LOAD_IN_PROGRESS, *, bare: bool = False
    ) -> None:
        self.refusals, self.code, self.bare = refusals, code, bare

    def poll(self, _seconds: float) -> int:
        """No error."""
        return 0

    def list_groups(self, timeout: float) -> list[Any]:
        """What the client tells of all groups, where the brokers cannot be asked in their own protocol."""
        return []

    def list_topics(self, topic: str, **_: Any) -> Any:
        """The topic of the groups' commits, on the only broker."""
        part = SimpleNamespace(leader=1, replicas=[1], isrs=[1])
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: part})})

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        """One more answer."""
        error = KafkaError(self.code)
        errors = [error if self.bare else KafkaException(error)] if self.refusals > 0 else []
        self.refusals -= 1
        return done(SimpleNamespace(valid=[], errors=errors))


@pytest.mark.parametrize("bare", [True, False])
def test_a_coordinator_that_is_loading_is_waited_for(bare: bool) -> None:
    """It answers some seconds after the broker's start; that is no outage. Its error comes bare or in an exception."""
    cluster = KafkaCluster("127.0.0.1:1", _admin=LoadingAdmin(refusals=3, bare=bare))
    assert cluster.snapshot().incomplete == ()
    assert cluster.requests == 6


def test_a_coordinator_that_never_loads_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the patience its own words are told."""
    monkeypatch.setattr(kafka, "_LOADING_SECONDS", 0.5)
    with pytest.raises(SourceUnreachableError, match="load in progress"):
        KafkaCluster("127.0.0.1:1", _admin=LoadingAdmin(refusals=1000)).snapshot()


def test_another_refusal_is_told_at_once() -> None:
    """Waiting would not cure it."""
    admin = LoadingAdmin(refusals=1000, code=KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(SourceUnreachableError, match="uthoriz"):
        KafkaCluster("127.0.0.1:1", _admin=admin).snapshot()
    assert admin.refusals == 999
