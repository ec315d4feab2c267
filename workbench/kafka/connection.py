"""Connection to a Kafka cluster: the admin client, its requests, and waiting for their answers.

The client keeps refused logins and certificates to itself: it goes on trying, and the request times out. So its error callback is
served while a request waits (`KafkaConnection.wait`), and the refusal becomes the error.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workbench.errors import SourceUnreachableError, WorkbenchError
from workbench.kafka.brokers_that_answer import SMALL_TOPIC, Brokers, look_at_brokers
from workbench.kafka.group_answers import Coordination
from workbench.kafka.librdkafka_errors import ClientErrors, error_words, is_denied, is_local, is_lost, settings_error

DEADLINE_SECONDS = 30.0
_TICK_SECONDS = 0.1  # between two looks at the client's errors
_GRACE_SECONDS = 1.0  # after a refusal: another broker may accept what one refuses
_DOWN_SECONDS = 4.0  # all addresses refuse connections for so long: the cluster is down
_QUIET_SHARE = 1 / 20  # of the deadline: without any answer for so long, see which brokers live
_LET_IN_SECONDS = 0.7
_CLIENT = {
    "log_level": 0,  # our own error reports failures, once
    "reconnect.backoff.max.ms": 1_000,  # a broker that comes back is found within a second, not ten
    "allow.auto.create.topics": False,  # an admin client that looks up a deleted topic would make it anew
}

# Time limit that librdkafka (2.16) gets for what it asks a coordinator to read. If its own limit passes while a request is under way,
# the late answer ends the process (`eonce->refcnt > 0`). So we stop waiting ourselves, and the client goes on until it has its answer.
COORDINATOR_SECONDS = 3_600.0

_retired: list[Any] = []

T = TypeVar("T")


# By the client's text: what to look at.
_HINTS = {
    "Failed to resolve": "This machine does not know the name: check the address, or its DNS.",
    "Connection refused": "Nothing listens there: check host and port, and whether the broker runs.",
}
_LOCAL = "Local: "  # librdkafka's mark of errors that no broker has sent
_UNKNOWN_REASON = "Is the address correct, and the network open? Check the security settings in workbench.toml."


class BrokerSilentError(Exception):
    """Some brokers do not answer, others do."""


@dataclass(slots=True)
class KafkaConnection:
    """A connection to one cluster, through confluent-kafka's AdminClient.

    Args:
        bootstrap: host:port of some brokers.
        properties: further librdkafka properties (security).
        deadline_seconds: for one request, or for one complete snapshot.
        is_patient: wait for a cluster that has answered, and refuses connections since, until the deadline: it may be starting anew.
    """

    bootstrap: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    deadline_seconds: float = DEADLINE_SECONDS
    requests: int = 0  # counted, so that a test can check that there are few
    is_patient: bool = False
    _admin: Any = None
    _errors: ClientErrors = field(default_factory=ClientErrors)
    server: tuple[str, int] | None = None  # that has answered our own requests
    coordination: Coordination | None = None  # when groups were listed last
    _living: str | None = None  # addresses of the brokers that answer, once some did not

    @property
    def principal(self) -> str:
        """Who this client is, for messages."""
        user = self.properties.get("sasl.username")
        return repr(user) if user else "this client"

    @property
    def servers(self) -> str:
        """Addresses to begin with: those of the settings, or those that answered, once some did not."""
        return self._living or self.bootstrap

    @property
    def own_servers(self) -> str:
        """The same for our own requests, which ask one after the other: first the one that has answered before."""
        if self.server is None:
            return self.servers
        host, port = self.server
        return f"{f'[{host}]' if ':' in host else host}:{port},{self.servers}"

    @property
    def has_login(self) -> bool:
        """Whether brokers know who this client is, and so may hide something from it."""
        return str(self.properties.get("security.protocol", "plaintext")).lower() != "plaintext"

    @property
    def quiet_seconds(self) -> float:
        """Time without any answer after which it is worth while to see which brokers live."""
        return max(0.5, self.deadline_seconds * _QUIET_SHARE)

    def cluster_id(self) -> str:
        """Id of the cluster.

        Raises:
            SourceUnreachableError: if it does not answer.
        """
        return str(self.metadata().cluster_id)

    def metadata(self) -> Any:
        """The cluster's id, brokers and topics, from any broker that answers: a broker that hangs does not hold this up.

        Raises:
            SourceUnreachableError: if none answers.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.deadline_seconds
        self.first_answer(deadline)
        for seconds in (self.quiet_seconds, None):
            admin = self.connect()
            try:
                self.requests += 1
                return admin.list_topics(timeout=seconds or seconds_left(deadline))
            except KafkaException as error:
                if seconds is None:
                    raise self.unreachable(error) from None
                self.reconnect(self.look())
        raise AssertionError("the second round returns or raises")

    def first_answer(self, deadline: float) -> None:
        """Of a new client, wait until any broker has answered.

        Raises:
            SourceUnreachableError: if none does; a refused login or certificate at once.
        """
        from confluent_kafka import KafkaException

        if self._admin is not None:
            return
        self.requests += 1
        seconds = _LET_IN_SECONDS
        while True:
            try:
                self.connect().list_topics(SMALL_TOPIC, timeout=min(seconds, seconds_left(deadline)))
                self._errors.clear()
                return
            except KafkaException as error:
                self._heed()
                if is_over(deadline):
                    raise self.unreachable(error) from None
                seconds *= 2

    def connect(self) -> Any:
        """The AdminClient, created at the first call.

        Raises:
            ConfigError: if librdkafka does not accept the properties.
        """
        if self._admin is None:
            from confluent_kafka import KafkaException

            from workbench.kafka.admin_client import TextAdminClient

            timeout_ms = round(1000 * min(10.0, max(1.0, self.deadline_seconds)))
            try:
                settings: dict[str, Any] = {
                    **_CLIENT,
                    "socket.timeout.ms": timeout_ms,
                    **self.properties,
                    "error_cb": self._errors,
                    "bootstrap.servers": self.servers,
                }
                self._admin = TextAdminClient(settings)
            except (KafkaException, ValueError, TypeError) as error:
                raise settings_error(error) from None
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

    def answer(self, send: Callable[[Any, float], Future[T]], deadline: float) -> T:
        """Send one request that changes nothing, and wait for its answer; again after a lost connection or a broker that hangs.

        Args:
            send: sends it; gets the admin client and a timeout in seconds.
            deadline: monotonic.

        Raises:
            KafkaException, TimeoutError: if there is none. SourceUnreachableError: if the brokers refuse this client.
        """
        from confluent_kafka import KafkaException

        for seconds in self.attempts(deadline):
            admin = self.connect()
            limit = min(deadline, time.monotonic() + seconds)
            try:
                self.requests += 1
                return self.wait(send(admin, seconds_left(limit)), limit)
            except (KafkaException, TimeoutError) as error:
                if is_over(deadline) or not (isinstance(error, TimeoutError) or is_lost(error)):
                    raise
                # Its client goes on waiting for a coordinator that it has found once, also when there is another one by now.
                self.reconnect(self.look(), is_stuck=isinstance(error, TimeoutError))
        raise TimeoutError("no answer in time")

    def attempts(self, deadline: float) -> Iterator[float]:
        """Time limits of attempts, each twice as long as the one before, until the deadline; the last takes what is left."""
        seconds = 2 * self.quiet_seconds
        while not is_over(deadline):
            left = seconds_left(deadline)
            yield seconds if seconds < left / 2 else left
            seconds *= 2

    def wait(self, future: Future[T], deadline: float, *, quiet_until: float | None = None) -> T:
        """Wait for the answer to a request, and hear the client's errors meanwhile.

        Args:
            future: of the request.
            deadline: monotonic.
            quiet_until: monotonic; without an answer by then, stop.

        Raises:
            KafkaException: if the request fails. TimeoutError: at the deadline. BrokerSilentError: at `quiet_until`.
            SourceUnreachableError: if the brokers refuse this client, and none has answered.
        """
        from confluent_kafka import KafkaException

        while True:
            try:
                found = future.result(_TICK_SECONDS)
            except TimeoutError:
                if future.done():
                    if isinstance(future.exception(), TimeoutError):
                        raise
                    continue  # it came between the end of our wait and this line
            except KafkaException as error:
                if is_local(error):  # no broker has said that
                    self._heed()
                else:
                    self._errors.clear()
                raise
            else:
                self._errors.clear()
                return found
            self._heed()
            if is_over(deadline):
                self._retire()
                raise TimeoutError("no answer in time")
            if quiet_until is not None and is_over(quiet_until):
                self._retire()
                raise BrokerSilentError

    def _retire(self) -> None:
        """Keep the client: one that goes while requests are under way can end the process (an assertion in librdkafka)."""
        if not any(it is self._admin for it in _retired):
            _retired.append(self._admin)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._admin))  # also when the interpreter ends

    def _heed(self) -> None:
        """Serve the client's error callback, and raise what it means if no broker has answered since."""
        self.connect().poll(0)
        refusal = self._errors.refusal
        if refusal is not None and (self._errors.are_all_down or refusal.seconds_ago > _GRACE_SECONDS):
            if not self._errors.are_all_down and self._is_let_in():
                self._errors.clear()
                return
            raise refusal.error(self.principal, self.properties)
        if not (self.is_patient and self._errors.has_answer) and self._errors.down_seconds > _DOWN_SECONDS:
            raise self.unreachable(TimeoutError(self._errors.words))

    def _is_let_in(self) -> bool:
        """Whether some broker accepts this client, when another one has refused it."""
        from confluent_kafka import KafkaException

        try:
            self.connect().list_topics(SMALL_TOPIC, timeout=_LET_IN_SECONDS)
        except KafkaException:
            return False
        return True

    @property
    def client_properties(self) -> dict[str, Any]:
        """Properties of a client beside this one, without the address."""
        return {**_CLIENT, **self.properties}

    def look(self) -> Brokers:
        """See which brokers answer now, each asked by a client of its own."""
        self.requests += 1
        return look_at_brokers(self.bootstrap, self.client_properties, self.principal)

    def reconnect(self, brokers: Brokers, *, is_stuck: bool = False) -> None:
        """Go on with a new client that knows the answering brokers only: the old one may have requests at one that hangs.

        Args:
            brokers: that were seen.
            is_stuck: a new client also where all brokers answer.
        """
        living = ",".join(brokers.answering.values())
        is_news = brokers.silent and living and living != self._living
        if is_news:
            self._living = living
        if is_news or is_stuck:
            self._retire()
            self._admin = None

    def refused(self, words: str, *, needs: str | None = None) -> WorkbenchError:
        """Make the error for a missing permission, such as "READ on group 'payments'"."""
        lacking = f"{self.principal} lacks {needs} ({words})" if needs else words
        return SourceUnreachableError(
            f"Kafka at {self.bootstrap} refuses: {lacking}.",
            hint="These credentials lack a permission. Ask for an ACL, or use other credentials in workbench.toml.",
        )

    def unreachable(self, error: BaseException, *, needs: str | None = None) -> WorkbenchError:
        """Make the error for a failed request, with the client's text.

        Args:
            error: of the client.
            needs: operation and resource, such as "READ on group 'payments'", for a missing permission.
        """
        if isinstance(error, WorkbenchError):
            return error
        if is_denied(error):
            return self.refused(error_words(error), needs=needs)
        words = error_words(error)
        if is_local(error):  # of the request; what the client said of its connections says more
            self.connect().poll(0)
            words = self._errors.recent(self.deadline_seconds) or words.rpartition(_LOCAL)[2].lower()
        hint = next((it for mark, it in _HINTS.items() if mark in words), _UNKNOWN_REASON)
        return SourceUnreachableError(f"Kafka at {self.bootstrap} does not answer: {words}.", hint=hint)


def seconds_left(deadline: float) -> float:
    """Seconds until a monotonic deadline, always above 0: the client does not accept a timeout of 0."""
    return max(0.1, deadline - time.monotonic())


def is_over(deadline: float) -> bool:
    """Whether a monotonic deadline has passed: then send no more requests, because each would wait for its minimum."""
    return time.monotonic() >= deadline
