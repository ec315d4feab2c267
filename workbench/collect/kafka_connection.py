"""Connection to a Kafka cluster: the admin client, its requests, and what its errors mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workbench.errors import SourceUnreachableError

DEADLINE_SECONDS = 30.0
_LOADING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")

T = TypeVar("T")


@dataclass(slots=True)
class KafkaConnection:
    """A connection to one cluster, through confluent-kafka's AdminClient.

    Args:
        bootstrap: host:port of some brokers.
        properties: further librdkafka properties (security).
        deadline_seconds: for one request, or for one complete snapshot.
    """

    bootstrap: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    deadline_seconds: float = DEADLINE_SECONDS
    requests: int = 0  # counted, so that a test can check that there are few
    _admin: Any = None

    def cluster_id(self) -> str:
        """Id of the cluster.

        Raises:
            SourceUnreachableError: if it does not answer.
        """
        self.connect()
        return str(self.ask(lambda: self._admin.list_topics(timeout=self.deadline_seconds)).cluster_id)

    def connect(self) -> Any:
        """The AdminClient, created at the first call."""
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            # log_level 0: our own error reports failures, once.
            self._admin = self.ask(
                lambda: AdminClient({"log_level": 0, **self.properties, "bootstrap.servers": self.bootstrap})
            )
        return self._admin

    def ask(self, call: Callable[[], T]) -> T:
        """Send one request, and count it.

        Raises:
            SourceUnreachableError: if it fails.
        """
        from confluent_kafka import KafkaException

        self.requests += 1
        try:
            return call()
        except (KafkaException, TimeoutError, ValueError) as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: BaseException) -> SourceUnreachableError:
        """Make the error for a failed request, with the client's text; a missing permission has its own text."""
        if is_denied(error):
            return SourceUnreachableError(
                f"Kafka at {self.bootstrap} refuses: {error_words(error)}.",
                hint="These credentials lack a permission. Ask for an ACL, or use other credentials in workbench.toml.",
            )
        return SourceUnreachableError(
            f"Kafka at {self.bootstrap} does not answer: {error_words(error)}.",
            hint="Is the address correct, and the network open? Check the security settings in workbench.toml.",
        )


def seconds_left(deadline: float) -> float:
    """Seconds until a monotonic deadline, always above 0: the client does not accept a timeout of 0."""
    return max(0.1, deadline - time.monotonic())


def is_over(deadline: float) -> bool:
    """Whether a monotonic deadline has passed: then send no more requests, because each would wait for its minimum."""
    return time.monotonic() >= deadline


def is_loading(error: Any) -> bool:
    """Whether a broker is still loading: it has just restarted, or has just become a coordinator."""
    inner = _inner(error)
    return inner is not None and inner.name() in _LOADING


def is_denied(error: Any) -> bool:
    """Whether these credentials lack a permission."""
    inner = _inner(error)
    return inner is not None and inner.name().endswith("_AUTHORIZATION_FAILED")


def error_words(error: Any) -> str:
    """Text of librdkafka's error or of the timeout."""
    inner = _inner(error)
    return str(inner.str() or inner.name()) if inner is not None else str(error) or "no answer in time"


def _inner(error: Any) -> Any:
    """librdkafka's error, plain or inside an exception; None for another kind of error."""
    from confluent_kafka import KafkaError, KafkaException

    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return inner if isinstance(inner, KafkaError) else None
