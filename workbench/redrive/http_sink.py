"""Redrive to a REST service: one request per letter, in order; the position is committed after each batch.

HTTP has no transactions. What the service has taken is committed also when the next letter is refused. After a crash, the requests
since the last commit are sent again, with the same Idempotency-Key: no more than a batch (`HTTP_BATCH`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.errors import GuardError, SourceUnreachableError
from workbench.redrive.commit_marks import PlanProgress
from workbench.redrive.letter_headers import Headers, Letter
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_ports import NO_MARKS, Marks, Positions, Sink
from workbench.runtime.event import Done, Event, Record, Retry
from workbench.runtime.rest_sink import RestSink

_PATIENCE_SECONDS = 30.0  # of one letter, for a service that says "later" or does not answer
_FIRST_PAUSE_SECONDS = 0.2


class HttpSink:
    """See `Sink`; takes effect with each request, and at most once more after a crash."""

    takes_at_once = True

    def __init__(self, plan: RedrivePlan, positions: Sink) -> None:
        assert plan.destination.url is not None  # noqa: S101 - the plan's model holds it
        self._plan = plan
        self._post = RestSink(plan.destination.url)
        self._kept = positions

    def begin(self, *, careful: bool = False) -> None:
        """See `Sink.begin`: another process that applies this plan fails at its next commit."""
        self._kept.begin(careful=careful)

    def progress(self) -> PlanProgress:
        """See `Sink.progress`."""
        return self._kept.progress()

    def claim(self, positions: Positions, ordered: int | None, marks: Marks, check: Callable[[], None]) -> PlanProgress:
        """See `Sink.claim`."""
        return self._kept.claim(positions, ordered, marks, check)

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        """Post one letter, until the service has taken it.

        Raises:
            GuardError: if the service refuses the letter.
            SourceUnreachableError: if it does not take it in time.
        """
        del topic, partition, headers, timestamp_ms
        record = Record(
            self._plan.topic, letter.partition, letter.offset, letter.key, letter.value, letter.timestamp_ms, None
        )
        event = Event("redrive", letter.key or b"", letter.value, record)
        deadline, pause = time.monotonic() + _PATIENCE_SECONDS, _FIRST_PAUSE_SECONDS
        while True:
            outcome = self._post(event)
            if isinstance(outcome, Done):
                return
            place = f"{letter.partition}:{letter.offset}"
            if not isinstance(outcome, Retry):
                why = getattr(outcome, "code", None) or getattr(outcome, "reason", "no reason")
                raise GuardError(
                    f"The service refuses the letter {place} ({why}): nothing after it was sent.",
                    hint="Correct the service, or plan without that letter. Apply again continues with it.",
                )
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"The service has not taken the letter {place} in {_PATIENCE_SECONDS:g} s."
                )
            time.sleep(min(outcome.after or pause, max(0.0, deadline - time.monotonic())))
            pause = min(5.0, 2 * pause)

    def commit(self, positions: Positions, ordered: int | None, marks: Marks = NO_MARKS) -> None:
        """See `Sink.commit`."""
        self._kept.commit(positions, ordered, marks)

    def close(self) -> None:
        """See `Sink.close`."""
        self._kept.close()
