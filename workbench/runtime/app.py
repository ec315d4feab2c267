"""The runtime: a task, the HTTP page beside it, and the life of the process around them."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from time import monotonic
from types import FrameType

from prometheus_client import CollectorRegistry

from workbench.errors import ConfigError
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import Decoder, Handler, decode_by_header
from workbench.runtime.http import HttpServer
from workbench.runtime.kafka_source import KafkaSource
from workbench.runtime.registry import collect
from workbench.runtime.task import MakeSource, Task, check_handlers

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 0.2


class RuntimeState(StrEnum):
    """What the runtime is doing."""

    RUNNING = "running"
    DRAINING = "draining"  # reads nothing; what was read goes on
    DRAINED = "drained"  # all that was read is done and committed
    SWITCHING = "switching"  # from one group to another
    STOPPING = "stopping"
    FAILED = "failed"


class Runtime:
    """A consumer group member that handles events by key, commits only what is done, and shows what it is doing.

    Args:
        config: what to read and how.
        processors: a handler for each event type (`"*"` handles the others), or functions that `@processor` has marked.
        decode: makes an event of a record; by default the type is the header `event_type`.
        make_source: the message queue; Kafka unless a test says otherwise.
        user_metrics: a registry of one's own, shown on the same page.
        probe_log_ends: whether to ask the broker for the ends of the log (a test's queue has none).

    Raises:
        ConfigError: if a type is configured that no processor handles.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        processors: Mapping[str, Handler] | Iterable[Handler],
        *,
        decode: Decoder = decode_by_header,
        make_source: MakeSource = lambda config, member: KafkaSource(config, member=member),
        user_metrics: CollectorRegistry | None = None,
        probe_log_ends: bool = True,
    ) -> None:
        self._processors = dict(processors) if isinstance(processors, Mapping) else collect(processors)
        check_handlers(self._processors, config)
        self._decode = decode
        self._make_source = make_source
        self._user_metrics = user_metrics
        self._probe_log_ends = probe_log_ends
        self._stopping = threading.Event()
        self._switch: threading.Thread | None = None  # while the group is being changed
        self._lock = threading.Lock()
        self._started_at = monotonic()
        self._server: HttpServer | None = None
        self.task = self._make_task(config)
        self.switch_error: str | None = None  # why the last switch of the group did not happen
        self._failure: BaseException | None = None  # of a switch that left no task behind
        self.replay: tuple[str, datetime] | None = None  # the group that was switched to, and from when

    def _make_task(self, config: RuntimeConfig) -> Task:
        return Task(
            config,
            self._processors,
            decode=self._decode,
            make_source=self._make_source,
            probe_log_ends=self._probe_log_ends,
        )

    @property
    def config(self) -> RuntimeConfig:
        """The settings in force; a switch of the group changes them."""
        return self.task.config

    @property
    def registries(self) -> list[CollectorRegistry]:
        """What the metrics page shows."""
        return [self.task.metrics.registry, *([self._user_metrics] if self._user_metrics is not None else [])]

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Where the page is, once started."""
        return self._server.address if self._server is not None else None

    @property
    def uptime_seconds(self) -> float:
        """Time since it was made."""
        return monotonic() - self._started_at

    @property
    def state(self) -> RuntimeState:
        """What it is doing."""
        if self._stopping.is_set():
            return RuntimeState.STOPPING
        if self._switch is not None:
            return RuntimeState.SWITCHING
        if self.failure is not None:
            return RuntimeState.FAILED
        if self.task.is_held:
            return RuntimeState.DRAINED if self.task.is_drained else RuntimeState.DRAINING
        return RuntimeState.RUNNING

    @property
    def failure(self) -> BaseException | None:
        """What it has died of."""
        return self._failure or self.task.failure

    # Life

    def start(self) -> None:
        """Start all threads and the page; returns at once.

        Raises:
            ConfigError: if the page's address cannot be used.
        """
        token = self.config.admin_token
        try:
            self._server = HttpServer(
                self,
                self.config.metrics_address,
                self.config.metrics_port,
                token=token.get_secret_value() if token is not None else None,
            )
        except OSError as error:
            raise ConfigError(
                f"metrics_address, metrics_port: {self.config.metrics_address}:{self.config.metrics_port} cannot be used: "
                f"{error.strerror or error}.",
                hint="metrics_port = 0 takes any free port.",
            ) from None
        self._server.start()
        self.task.start()

    def run(self, *, started: Callable[[], None] = lambda: None) -> None:
        """`start`, then `wait`; signals are obeyed from the beginning. `started` is called in between."""
        self._obey_signals()
        self.start()
        started()
        self.wait()

    def wait(self) -> None:
        """Work until SIGTERM, SIGINT or `stop`; a consumer thread that dies ends the whole. Main thread only.

        Raises:
            BaseException: what a consumer thread died of.
        """
        self._obey_signals()
        while not self._stopping.wait(_WAIT_SECONDS):
            with self._lock:
                if self._switch is None and (self.failure is not None or not self.task.is_alive()):
                    break
        self.stop()
        if self.failure is not None:
            raise self.failure

    def _obey_signals(self) -> None:
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._on_signal)

    def _on_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping.set()

    def stop(self) -> None:
        """Stop reading, let what is at work finish (up to `shutdown_seconds`), commit, leave the group."""
        self._stopping.set()
        if (switch := self._switch) is not None:
            switch.join()  # it sees that we are stopping, and starts nothing more
        self.task.stop()
        if self._server is not None:
            self._server.stop()

    # Orders (the admin API's threads)

    def drain(self) -> bool:
        """Stop reading, let what was read finish; False if that makes no sense now."""
        with self._lock:
            if self.state not in (RuntimeState.RUNNING, RuntimeState.DRAINING, RuntimeState.DRAINED):
                return False
            self.task.drain()
            return True

    def resume(self) -> bool:
        """Read on; False if that makes no sense now."""
        with self._lock:
            if self.state not in (RuntimeState.RUNNING, RuntimeState.DRAINING, RuntimeState.DRAINED):
                return False
            self.task.resume()
            return True

    def switch_group(self, group: str, since: datetime, max_bytes_per_second: int | None = None) -> bool:
        """Leave the group and join another, from an instant on where that has no commits; False if that makes no sense now.

        Source: the replay of seed document 000, step 1.
        """
        with self._lock:
            if self.state not in (RuntimeState.RUNNING, RuntimeState.DRAINING, RuntimeState.DRAINED):
                return False
            update = {"group": group, "start_at": since, "max_bytes_per_second": max_bytes_per_second}
            config = self.config.model_copy(update=update)
            self._switch = threading.Thread(target=self._change_group, args=(config,), name="switch", daemon=True)
            self._switch.start()
            return True

    def _change_group(self, config: RuntimeConfig) -> None:
        try:
            self._switch_to(config)
        except BaseException as error:
            # The old group has been left and the new one was not joined: the process must end, to be started again.
            _log.exception("the switch to group %s has failed", config.group)
            self.switch_error, self._failure = f"{type(error).__name__}: {error}", error
        finally:
            with self._lock:
                self._switch = None

    def _switch_to(self, config: RuntimeConfig) -> None:
        try:
            task = self._make_task(config)  # before anything is left: what cannot be made changes nothing
        except Exception as error:
            _log.error("the switch to group %s failed, group %s continues: %s", config.group, self.config.group, error)
            self.switch_error = f"{type(error).__name__}: {error}"
            return
        _log.info("leaving group %s for %s", self.config.group, config.group)
        while not self.task.stop():
            # A handler still works on an event of the old group; the new one must not hand it the same key meanwhile.
            if self._stopping.wait(_WAIT_SECONDS):
                task.discard()
                return
        with self._lock:
            if self._stopping.is_set():
                task.discard()
                return
            self.switch_error = None
            self.task = task
            self.task.start()
            self.replay = (config.group, config.start_at) if config.start_at is not None else None


@contextlib.contextmanager
def running(runtime: Runtime) -> Iterator[Runtime]:
    """A started runtime that stops at the end of the block (for notebooks and tests)."""
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()
