"""One reading of a cluster: it waits for the answers of many brokers, and goes on without those that are known to be silent.

The first attempt is patient. If nothing is answered for a while, every broker is asked whether it lives. If some do not, a second
attempt reads what the others have, and waits little. If all do, the cluster is slow, or librdkafka still waits for a broker that was
lost and is back, or that the cluster no longer counts: after some more time without an answer, a second attempt with a new client waits
until the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workbench.kafka.brokers_that_answer import Brokers
from workbench.kafka.connection import BrokerSilentError, KafkaConnection, is_over, seconds_left
from workbench.kafka.librdkafka_errors import denied_resource, error_words, is_lost

_REST_SECONDS = 0.5  # without any answer for so long, when it is known that some brokers do not answer
_LIST_SECONDS = 1.0  # limit for a list of all groups; the client returns it only after the last broker has answered
_SILENCE_SECONDS = 2.0  # of a broker that our own requests ask and that lives, when others are known not to answer
_MARGIN_SECONDS = 0.3  # before the deadline
_AGAIN_SECONDS = 2.0  # that a look at the brokers and another attempt need
_SILENT = "its broker does not answer"

T = TypeVar("T")


class AgainError(Exception):
    """The first attempt has met brokers that do not answer, or has lost a connection."""

    def __init__(self, brokers: Brokers, *, is_stuck: bool = False) -> None:
        self.brokers = brokers
        self.is_stuck = is_stuck


@dataclass(slots=True)
class ClusterReading:
    """One attempt.

    Attributes:
        deadline: monotonic.
        brokers: of a second attempt: which of them answer.
        incomplete: receives what could not be read, in words.
    """

    kafka: KafkaConnection
    deadline: float
    brokers: Brokers | None = None
    incomplete: list[str] = field(default_factory=list)
    _heard: float = field(default_factory=time.monotonic)
    _patience: float = 0.0
    _denied: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._patience = self.kafka.quiet_seconds
        if self.brokers is not None:
            self.incomplete += self.brokers.silent.values()

    @property
    def knows_silent(self) -> bool:
        """Whether this is an attempt without some brokers."""
        return self.brokers is not None and bool(self.brokers.silent)

    @property
    def list_seconds(self) -> float:
        """Time limit for a list of all groups."""
        left = seconds_left(self.deadline)
        return min(left, _LIST_SECONDS) if self.knows_silent else left

    @property
    def metadata_seconds(self) -> float:
        """Time limit for metadata, which any broker has; the one that the client asks may hang."""
        left = seconds_left(self.deadline)
        return min(left, self.kafka.quiet_seconds) if self.brokers is None or self.knows_silent else left

    @property
    def own_deadline(self) -> float:
        """Monotonic; for our own requests, which tell by then what they have."""
        return max(time.monotonic(), self.deadline - _MARGIN_SECONDS)

    @property
    def silence_seconds(self) -> float:
        """Time in which a broker must send something to our own requests.

        A first attempt gives up after a while: the cluster may no longer count a broker that hangs, so that the next one does not ask
        it. A second attempt is short where others do not answer; where all answer, the cluster is slow.
        """
        left = seconds_left(self.own_deadline)
        if self.knows_silent:
            return min(left, _SILENCE_SECONDS)
        return left if self.brokers is not None else min(left, 2 * self.kafka.quiet_seconds)

    def ask(self, call: Callable[[Any], T]) -> T:
        """Send a request; it gets the admin client."""
        admin = self.kafka.connect()
        sent = self.kafka.ask(lambda: call(admin))
        self._heard = time.monotonic()
        return sent

    def wait(self, future: Future[T], *, at_least: float = 0.0) -> T:
        """Wait for an answer; of a second attempt, for `at_least` so many seconds.

        Raises:
            KafkaException, TimeoutError: if there is none.
            AgainError: of a first attempt, if a broker is silent.
            SourceUnreachableError: if the brokers refuse this client.
        """
        from confluent_kafka import KafkaException

        while True:
            patience = max(_REST_SECONDS, at_least) if self.knows_silent else self._patience
            try:
                found = self.kafka.wait(future, self.deadline, quiet_until=self._heard + patience)
            except BrokerSilentError:
                if is_over(self._heard + patience):  # else an answer to a part has come meanwhile
                    self._go_on_or_again()
            except KafkaException as error:
                if is_lost(error):
                    self.begin_again()
                self._heard = time.monotonic()
                raise
            else:
                self._heard = time.monotonic()
                return found

    def wait_for_own(self, future: Future[T]) -> T:
        """Wait for our own requests, which have limits of their own.

        Raises:
            TimeoutError: if they do not keep them. AgainError, SourceUnreachableError: as `wait`.
        """
        return self.wait(future, at_least=seconds_left(self.deadline))

    def begin_again(self) -> None:
        """A connection is lost: of a first attempt, see which brokers live, and begin again."""
        if self.brokers is None and seconds_left(self.deadline) > _AGAIN_SECONDS:
            raise AgainError(self.kafka.look()) from None

    def hear(self) -> None:
        """Note that a broker has answered a part of what is waited for."""
        self._heard = time.monotonic()

    def _go_on_or_again(self) -> None:
        if self.knows_silent:
            raise TimeoutError(_SILENT)
        brokers = self.kafka.look()
        if self.brokers is None and brokers.answering and seconds_left(self.deadline) > _AGAIN_SECONDS:
            if brokers.silent:
                raise AgainError(brokers)
            if self._patience > self.kafka.quiet_seconds:
                raise AgainError(brokers, is_stuck=True)
        self._heard = time.monotonic()
        self._patience *= 2

    def result(self, future: Future[T], what: str, needs: str) -> T | None:
        """Wait for an answer; without one, note `what` is missing: a failed group must not affect the others.

        Args:
            future: of the request.
            what: what it asks for.
            needs: operation and resource of the permission that it takes.
        """
        from confluent_kafka import KafkaException

        try:
            return self.wait(future)
        except (KafkaException, TimeoutError) as error:
            if denied_resource(error) is not None:
                self.deny(what, needs)
            else:
                self.incomplete.append(f"{what}: {error_words(error)}")
            return None

    def deny(self, what: str, needs: str) -> None:
        """Note that this client may not read something; once for each permission."""
        if needs not in self._denied:
            self._denied.add(needs)
            self.incomplete.append(f"{what}: not permitted: {self.kafka.principal} lacks {needs}")

    def is_denied(self, needs: str) -> bool:
        """Whether a permission has been found to be lacking."""
        return needs in self._denied


def read(kafka: KafkaConnection, work: Callable[[ClusterReading], T]) -> T:
    """Do some reading; if brokers turn out to be silent, do it again without them.

    Raises:
        SourceUnreachableError: if nothing can be read.
        ConfigError: if librdkafka does not accept the settings.
    """
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + kafka.deadline_seconds
    kafka.connect()  # it checks the settings, and logs in while our own requests are under way
    try:
        try:
            return work(ClusterReading(kafka, deadline))
        except AgainError as again:
            kafka.reconnect(again.brokers, is_stuck=again.is_stuck)
            return work(ClusterReading(kafka, deadline, again.brokers))
    except (KafkaException, TimeoutError) as error:
        raise kafka.unreachable(error) from None
