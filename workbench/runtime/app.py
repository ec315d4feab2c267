"""The runtime: a task, its HTTP endpoints, and the life cycle of the process."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from time import monotonic
from types import FrameType

from prometheus_client import CollectorRegistry

from workbench.errors import ConfigError, GuardError
from workbench.humanize import plural
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import Decoder, Handler, TopicPartition, decode_by_header
from workbench.runtime.group_switch_file import keep_switch, with_kept_switch
from workbench.runtime.group_task import MakeSource, Task, check_handlers
from workbench.runtime.processor_registry import collect
from workbench.runtime.ranges_to_process import RangeTable
from workbench.runtime.runtime_http import HttpServer

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 0.2
# Four batches of a poll. With Python's 700, each batch was searched for cycles several times, and all that is in flight with it: a
# sixth of the processor's time (measured), for records and events that have none.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000


class RuntimeState(StrEnum):
    """State of the runtime."""

    RUNNING = "running"
    DRAINING = "draining"  # reads nothing; records already read are still processed
    DRAINED = "drained"  # everything read is processed and committed
    SWITCHING = "switching"  # moves from one group to another
    STOPPING = "stopping"
    FAILED = "failed"


class Runtime:
    """Consumer group member that processes events by key, commits only finished offsets, and exports metrics.

    Args:
        config: topics, group, threads and queues.
        processors: a handler for each event type (`"*"` handles the others), or functions that `@processor` has marked.
        decode: makes an event from a record; by default its type is the header `event_type`.
        make_source: makes a consumer; None: the queue's own.
        user_metrics: an additional Prometheus registry for the metrics page.
        probe_log_ends: whether to ask the broker for log end offsets (a test's queue has none).

    Raises:
        ConfigError: if a type is configured that no processor handles.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        processors: Mapping[str, Handler] | Iterable[Handler],
        *,
        decode: Decoder = decode_by_header,
        make_source: MakeSource | None = None,
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
        self._switch: threading.Thread | None = None  # held while the group changes
        self._lock = threading.Lock()
        self._started_at = monotonic()
        self._server: HttpServer | None = None
        self._own_group = config.group
        config, kept = with_kept_switch(config)
        self.task = self._make_task(config)
        self.switch_error: str | None = None  # reason why the last switch of the group failed
        self._failure: BaseException | None = None  # of a switch that left no task
        self.replay: tuple[str, datetime] | None = kept  # the new group, and its start

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
        """Current settings; a switch of the group changes them."""
        return self.task.config

    @property
    def registries(self) -> list[CollectorRegistry]:
        """Prometheus registries of the metrics page."""
        return [self.task.metrics.registry, *([self._user_metrics] if self._user_metrics is not None else [])]

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port of the metrics page, once started."""
        return self._server.address if self._server is not None else None

    @property
    def uptime_seconds(self) -> float:
        """Seconds since the runtime was created."""
        return monotonic() - self._started_at

    @property
    def state(self) -> RuntimeState:
        """Current state."""
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
        """Error that ended a thread, or None."""
        return self._failure or self.task.failure

    # Life

    def start(self) -> None:
        """Start all threads and the metrics page; returns immediately.

        Raises:
            ConfigError: if the address of the metrics page cannot be used.
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
        if gc.isenabled() and gc.get_threshold()[0] < _OBJECTS_BETWEEN_COLLECTIONS:
            gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
        self.task.start()

    def run(self, *, started: Callable[[], None] = lambda: None) -> None:
        """`start`, then `wait`; signals are handled from the beginning. `started` is called in between."""
        self._obey_signals()
        self.start()
        started()
        self.wait()

    def wait(self) -> None:
        """Block until SIGTERM, SIGINT or `stop`; if a consumer thread dies, the runtime stops. Main thread only.

        Raises:
            BaseException: the error that ended a consumer thread.
        """
        self._obey_signals()
        while not self._stopping.wait(_WAIT_SECONDS):
            with self._lock:
                if self._switch is None and (self.failure is not None or not self.task.is_alive()):
                    break
                task = self.task if self._switch is None else None
            if task is not None and self.replay is None and task.is_through:
                if unproved := task.unproved:
                    self._failure = _incomplete(unproved)
                else:
                    _log.info("all ranges are processed and committed: leaving the group %s", task.config.group)
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
        """Stop reading, finish events in flight (up to `shutdown_seconds`), commit, and leave the group."""
        self._stopping.set()
        if (switch := self._switch) is not None:
            switch.join()  # it sees the stop, and starts nothing more
        self.task.stop()
        if self._server is not None:
            self._server.stop()

    # Commands (called by the admin API's threads)

    def drain(self) -> bool:
        """Stop reading and finish what was read; return False if the state does not allow it."""
        with self._lock:
            if self.state not in (RuntimeState.RUNNING, RuntimeState.DRAINING, RuntimeState.DRAINED):
                return False
            self.task.drain()
            return True

    def resume(self) -> bool:
        """Continue reading; return False if the state does not allow it."""
        with self._lock:
            if self.state not in (RuntimeState.RUNNING, RuntimeState.DRAINING, RuntimeState.DRAINED):
                return False
            self.task.resume()
            return True

    def switch_group(
        self, group: str, since: datetime, max_bytes_per_second: int | None = None, ranges: RangeTable | None = None
    ) -> bool:
        """Leave the group and join another one; return False if the state does not allow it.

        Partitions without a commit of the new group start at the given timestamp. With `ranges`, only those are processed. The process
        stays when they are through: the way back (`cutover --back`) asks it.
        """
        with self._lock:
            if self.state not in (RuntimeState.RUNNING, RuntimeState.DRAINING, RuntimeState.DRAINED):
                return False
            update: dict[str, object] = {
                "group": group,
                "start_at": since,
                "max_bytes_per_second": max_bytes_per_second,
            }
            update["ranges"] = ranges
            config = self.config.model_copy(update=update)
            self._switch = threading.Thread(target=self._change_group, args=(config,), name="switch", daemon=True)
            self._switch.start()
            return True

    def _change_group(self, config: RuntimeConfig) -> None:
        try:
            self._switch_to(config)
        except BaseException as error:
            # The member has left the old group and not joined the new one: the process must end and be restarted.
            _log.exception("the switch to group %s has failed", config.group)
            self.switch_error, self._failure = f"{type(error).__name__}: {error}", error
        finally:
            with self._lock:
                self._switch = None

    def _switch_to(self, config: RuntimeConfig) -> None:
        try:
            task = self._make_task(config)  # before the old group is left: if this fails, nothing has changed
        except Exception as error:
            _log.error("the switch to group %s failed, group %s continues: %s", config.group, self.config.group, error)
            self.switch_error = f"{type(error).__name__}: {error}"
            return
        if config.switch_file is not None:
            try:
                keep_switch(config.switch_file, config, of_group=self._own_group)
            except OSError as error:
                task.discard()
                _log.error("the switch to group %s cannot be kept in %s: %s", config.group, config.switch_file, error)
                self.switch_error = f"switch_file: {error.strerror}"
                return
        _log.info("leaving group %s for %s", self.config.group, config.group)
        while not self.task.stop():
            # A handler still processes an event of the old group; the new group must not process the same key meanwhile.
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


def _incomplete(unproved: Sequence[TopicPartition]) -> GuardError:
    named = ", ".join(f"{topic}-{number}" for topic, number in unproved[:10])
    return GuardError(
        f"The ranges are read to their end, but records of {plural(len(unproved), 'partition')} were deleted before: {named}.",
        hint="The metadata of the group's commits names the skipped offsets; the other records are processed.",
    )


@contextlib.contextmanager
def running(runtime: Runtime) -> Iterator[Runtime]:
    """Start a runtime, and stop it at the end of the block (for notebooks and tests)."""
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()
