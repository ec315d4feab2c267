"""What the admin answered while subscriptions were looked at, as one file; and the same questions asked of it again.

Recorded are paths, answers and the times at which they came. What nobody judges and people put secrets into is left out: properties of
subscriptions, consumers and producers, and settings of brokers. What our own settings know to be secret is masked.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import DamagedCaptureError, SourceUnreachableError
from workbench.limited_reads import first_problem
from workbench.masking import masked_document
from workbench.pulsar.admin import NotThereError, PulsarAdmin
from workbench.pulsar.policies import BROKER_SETTINGS, read_settings
from workbench.settings import Cluster

_LEFT_OUT = frozenset(
    {"metadata", "properties", "subscriptionProperties", "publishers", "schemaLedgers", "ownerBroker"}
)
# Of a partitioned topic, `metadata` has the number of its partitions.
_KEPT_METADATA = frozenset({"partitions", "deleted"})
_MOST_BYTES = 512 << 20  # of the content; ten thousand subscriptions have 60 MB
_MOST_ANSWERS = 1_000_000


class AdminAnswer(BaseModel):
    """One answer: a document, or what was said instead of it.

    Attributes:
        at: when it came, seconds since the epoch.
        failed: whether it is missing ("not_there": the admin has no such thing).
    """

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    path: str
    params: dict[str, str] = {}
    at: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
    document: Any = None
    failed: Literal["not_there", "untold"] | None = None
    message: str = ""
    hint: str | None = None


class AdminAnswers(BaseModel):
    """The file."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    schema_: Literal["workbench.pulsar-answers/1"] = Field(alias="schema", default="workbench.pulsar-answers/1")
    namespaces: list[str] = []
    started_at: AwareDatetime
    ended_at: AwareDatetime
    answers: Annotated[list[AdminAnswer], Field(max_length=_MOST_ANSWERS)]

    def packed(self) -> bytes:
        """The file's content."""
        return zlib.compress(self.model_dump_json(by_alias=True, exclude_defaults=True).encode(), 6)

    @classmethod
    def unpacked(cls, content: bytes) -> AdminAnswers:
        """Read it.

        Raises:
            DamagedCaptureError: if it is none.
        """
        try:
            unpacking = zlib.decompressobj()
            text = unpacking.decompress(content, _MOST_BYTES)
            if not unpacking.eof:
                raise DamagedCaptureError("The recorded answers are truncated, or too large.")
            return cls.model_validate_json(text)
        except zlib.error:
            raise DamagedCaptureError(
                "The recorded answers are damaged.", hint="Copy the whole folder again."
            ) from None
        except ValidationError as error:
            raise DamagedCaptureError(
                f"The recorded answers cannot be read: {first_problem(error, whole='the file')}."
            ) from None


class AnswerRecorder:
    """Makes admins whose answers are kept, or (with `recorded`) come from a file; `clock` is the time of a thread's last answer."""

    def __init__(self, cluster: Cluster, recorded: AdminAnswers | None = None) -> None:
        self._cluster = cluster
        self._kept: list[AdminAnswer] = []
        self._lock, self._of_thread = threading.Lock(), threading.local()
        self._waiting: dict[str, deque[AdminAnswer]] | None = None
        if recorded is not None:
            self._waiting = defaultdict(deque)
            for answer in recorded.answers:
                self._waiting[_asked(answer.path, answer.params)].append(answer)

    def admin(self) -> PulsarAdmin:
        """One more, with a deadline of its own."""
        return _RecordedAdmin(self) if self._waiting is not None else _RecordingAdmin(self._cluster, self)

    def clock(self) -> float:
        """When the last answer of this thread came."""
        found: float = self._of_thread.at
        return found

    def keep(self, answer: AdminAnswer) -> Any:
        """Keep one, and give it back as a later reader gets it.

        Raises:
            SourceUnreachableError: if it is one.
        """
        with self._lock:
            self._kept.append(answer)
        return self._given(answer)

    def again(self, path: str, params: Mapping[str, str] | None) -> Any:
        """The next recorded answer to a question.

        Raises:
            SourceUnreachableError: if it was one, or was not asked.
        """
        assert self._waiting is not None  # noqa: S101 - only of a recording
        with self._lock:
            waiting = self._waiting.get(_asked(path, dict(params or {})))
            answer = waiting.popleft() if waiting else None
        if answer is None:
            raise SourceUnreachableError(f"{path} was not asked when the capture was made.")
        return self._given(answer)

    def _given(self, answer: AdminAnswer) -> Any:
        self._of_thread.at = answer.at
        if answer.failed is None:
            return answer.document
        raise (NotThereError if answer.failed == "not_there" else SourceUnreachableError)(
            answer.message, hint=answer.hint
        )

    def answers(self, started_at: datetime, ended_at: datetime) -> AdminAnswers:
        """All that were kept."""
        return AdminAnswers(
            namespaces=self._cluster.pulsar.namespaces, started_at=started_at, ended_at=ended_at, answers=self._kept
        )


class _RecordingAdmin(PulsarAdmin):
    def __init__(self, cluster: Cluster, recorder: AnswerRecorder) -> None:
        super().__init__(cluster)
        self._recorder = recorder

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        return self._kept(lambda: super(_RecordingAdmin, self).get(path, params), path, params)

    def get_text(self, path: str) -> str:
        return str(self._kept(lambda: super(_RecordingAdmin, self).get_text(path), path, None))

    def _kept(self, ask: Callable[[], Any], path: str, params: Mapping[str, str] | None) -> Any:
        asked: dict[str, Any] = {"path": path, "params": dict(params or {})}
        try:
            document = ask()
            if path == BROKER_SETTINGS:
                document = read_settings(document)
            answer = AdminAnswer(**asked, document=scrubbed(document), at=time.time())
        except SourceUnreachableError as error:
            failed: Any = "not_there" if isinstance(error, NotThereError) else "untold"
            answer = AdminAnswer(**asked, at=time.time(), failed=failed, message=error.message, hint=error.hint)
        return self._recorder.keep(answer)


class _RecordedAdmin(PulsarAdmin):
    """Asks nobody."""

    def __init__(self, recorder: AnswerRecorder) -> None:
        self._recorder = recorder

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        return self._recorder.again(path, params)

    def get_text(self, path: str) -> str:
        return str(self._recorder.again(path, None))


def scrubbed(document: Any) -> Any:
    """A document without what people put secrets into; see the module."""
    return masked_document(_without(document))


def _without(document: Any) -> Any:
    if isinstance(document, dict):
        found = {name: _without(it) for name, it in document.items() if name not in _LEFT_OUT}
        metadata = document.get("metadata")
        if isinstance(metadata, dict) and (kept := {name: metadata[name] for name in _KEPT_METADATA & metadata.keys()}):
            found["metadata"] = kept
        return found
    if isinstance(document, list):
        return [_without(it) for it in document]
    return document


def _asked(path: str, params: Mapping[str, str]) -> str:
    return json.dumps([path, sorted(params.items())])
