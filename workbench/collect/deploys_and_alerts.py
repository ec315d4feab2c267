"""Events around a cluster: deploys, config changes, scaling and alerts, kept beside the captures, one JSON object a line.

Every triage takes those of its window along. They come from the command line and CI (`workbench events add`), from files, Grafana's
annotations, Alertmanager's alerts, and from metrics that Prometheus has anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import requests
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import ConfigError, SourceUnreachableError, UsageError
from workbench.files import writing
from workbench.http_client import WebSession, cause
from workbench.humanize import one_line
from workbench.limited_reads import first_problem, read_within
from workbench.user_folders import state_dir

KINDS = ("deploy", "config", "scaling", "topic", "restart", "alert", "other")
_FILE_BYTES = 64 << 20
_TEXT_CHARACTERS = 500
_MOST_ANSWERS = 5_000
_TIMEOUT_SECONDS = 30.0
# Metrics of kube-state-metrics whose changes are events: name → (kind, label with the thing's name, words).
_KUBE = {
    "kube_deployment_metadata_generation": ("deploy", "deployment", "changed"),
    "kube_statefulset_metadata_generation": ("deploy", "statefulset", "changed"),
    "kube_deployment_spec_replicas": ("scaling", "deployment", "scaled from {before:g} to {after:g}"),
    "kube_statefulset_replicas": ("scaling", "statefulset", "scaled from {before:g} to {after:g}"),
}
KUBE_METRICS = tuple(_KUBE)


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("this time has no time zone, as in 2026-11-21T03:00:00Z")
    if not 1970 <= value.year <= 2999:
        raise ValueError(f"the year {value.year} is not plausible")
    return value.astimezone(UTC)


def _short(value: str) -> str:
    return one_line(value)[:_TEXT_CHARACTERS]


_Text = Annotated[str, AfterValidator(_short)]


class ClusterEvent(BaseModel):
    """Something that happened.

    Attributes:
        ts: when.
        kind: one of `KINDS`; others are kept as they are.
        text: in words.
        service, version: what was deployed.
        group: only for the groups of this pattern; None: for all.
        source: where it is from.
    """

    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", frozen=True)

    ts: Annotated[datetime, AfterValidator(_aware)]
    kind: _Text = Field(default="other", min_length=1)
    text: _Text = ""
    service: _Text | None = None
    version: _Text | None = None
    group: _Text | None = None
    source: _Text = "command"

    def to_json(self) -> dict[str, Any]:
        """One line of a capture's events; fields without a value are left out."""
        words = self.text or " ".join(filter(None, (self.service, self.version)))
        values = {**self.model_dump(mode="json", exclude_none=True), "text": words}
        return {**values, "ts": self.ts.isoformat()}


class EventStore:
    """Events of one cluster, in a file that is only appended to."""

    def __init__(self, cluster: str, folder: Path | None = None) -> None:
        name = re.sub(r"[^\w.-]", "_", cluster)
        if name != cluster:  # two clusters may differ in such a character alone
            name += f"-{hashlib.sha256(cluster.encode()).hexdigest()[:12]}"
        self.path = (folder or state_dir() / "events") / f"{name}.jsonl"

    def add(self, events: Iterable[ClusterEvent]) -> int:
        """Append those that are not there yet; return their number.

        Raises:
            OutputError: if the file cannot be written.
        """
        here = {_identity(event) for event in self.read()}
        new = []
        for event in events:
            if (key := _identity(event)) not in here:
                here.add(key)
                new.append(event)
        if new:
            text = "".join(json.dumps(event.to_json(), sort_keys=True) + "\n" for event in new)
            with writing(f"The list of events {self.path}"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    size = os.fstat(handle).st_size
                    if size and os.pread(handle, 1, size - 1) != b"\n":  # a kill has cut the last line
                        text = "\n" + text
                    os.write(handle, text.encode())  # one write: several commands may append at once
                finally:
                    os.close(handle)
        return len(new)

    def read(self, start: datetime | None = None, end: datetime | None = None) -> list[ClusterEvent]:
        """Events in [start, end], in time; damaged lines are left out.

        Raises:
            ConfigError: if the file cannot be read.
        """
        try:
            text = read_within(self.path, _FILE_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"The list of events {self.path} cannot be read: {error.strerror}.") from None
        found = []
        for line in text.splitlines():
            try:
                event = ClusterEvent.model_validate_json(line)
            except ValidationError:
                continue  # a kill in the middle of a write
            if (start is None or event.ts >= start) and (end is None or event.ts <= end):
                found.append(event)
        return sorted(found, key=lambda event: event.ts)


def _identity(event: ClusterEvent) -> tuple[object, ...]:
    return event.ts, event.kind, event.to_json()["text"], event.group


def of_file(path: Path) -> list[ClusterEvent]:
    """Events of a file, one JSON object a line with at least `ts`.

    Raises:
        UsageError: naming the line that cannot be read.
    """
    try:
        text = read_within(path, _FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{path} cannot be read: {reason}.") from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(ClusterEvent.model_validate_json(line))
            except (ValidationError, RecursionError) as error:
                reason = str(first_problem(error)) if isinstance(error, ValidationError) else "nested too deeply"
                raise UsageError(
                    f"{path}, line {number}: {reason}.",
                    hint='For example: {"ts": "2026-11-21T03:00:00Z", "kind": "deploy", "text": "payments 142"}',
                ) from None
    return found


def of_grafana(
    url: str, start: datetime, end: datetime, *, headers: Mapping[str, str] | None = None
) -> list[ClusterEvent]:
    """Annotations of a Grafana (`/api/annotations`); a tag that is a kind of event becomes the kind.

    Raises:
        SourceUnreachableError: if it does not answer.
    """
    params = {
        "from": str(round(start.timestamp() * 1000)),
        "to": str(round(end.timestamp() * 1000)),
        "limit": str(_MOST_ANSWERS),
    }
    found = []
    for item in _asked(f"{url.rstrip('/')}/api/annotations", params, headers, what="Grafana"):
        with _of_its_form(url, "Grafana"):
            tags = [str(tag).lower() for tag in item.get("tags") or []]
            kind = next((tag for tag in tags if tag in KINDS), "other")
            text = " ".join(re.sub(r"<[^<>]*>", " ", str(item.get("text") or "")).split())
            found.append(_made(float(item["time"]) / 1000, kind, text or ", ".join(tags), source="grafana"))
    return found


def of_alertmanager(url: str, *, headers: Mapping[str, str] | None = None) -> list[ClusterEvent]:
    """Alerts of an Alertmanager (`/api/v2/alerts`) by their beginnings.

    Raises:
        SourceUnreachableError: if it does not answer.
    """
    found = []
    for item in _asked(f"{url.rstrip('/')}/api/v2/alerts", {}, headers, what="Alertmanager"):
        with _of_its_form(url, "Alertmanager"):
            labels = {str(name): str(value) for name, value in (item.get("labels") or {}).items()}
            at = datetime.fromisoformat(str(item["startsAt"]))
            subject = labels.get("group") or labels.get("consumergroup") or labels.get("instance") or ""
            words = f"{labels.get('alertname', 'alert')} {subject}".strip()
            found.append(_made(at.timestamp(), "alert", words, source="alertmanager"))
    return found


def of_changes(name: str, series: Iterable[tuple[Mapping[str, str], np.ndarray, np.ndarray]]) -> list[ClusterEvent]:
    """Changes of a metric of kube-state-metrics (`KUBE_METRICS`).

    Args:
        name: of the metric.
        series: labels, µs since the epoch, values.
    """
    kind, label, words = _KUBE[name]
    found = []
    for labels, times, values in series:
        for at in np.flatnonzero(np.diff(values) != 0):
            what = words.format(before=values[at], after=values[at + 1])
            where = f"{labels.get('namespace', '')}/{labels.get(label, '')}".strip("/")
            found.append(
                _made(times[at + 1] / 1e6, kind, f"{where} {what}", source="prometheus", service=labels.get(label))
            )
    return found


def _made(seconds: float, kind: str, text: str, *, source: str, service: str | None = None) -> ClusterEvent:
    return ClusterEvent(ts=datetime.fromtimestamp(seconds, UTC), kind=kind, text=text, source=source, service=service)


@contextmanager
def _of_its_form(url: str, what: str) -> Iterator[None]:
    """Turn whatever a strange answer leads to into one error.

    Raises:
        SourceUnreachableError: if an item of the answer cannot be read.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError):
        raise _not_its_own(url, what) from None


def _host(url: str) -> str:
    return re.sub(r"^[a-z]+://(?:[^@/]*@)?([^/]*).*", r"\1", url)


def _not_its_own(url: str, what: str) -> SourceUnreachableError:
    return SourceUnreachableError(f"The answer of {_host(url)} is not one of {what}.", hint="Is the URL its base?")


def _asked(url: str, params: Mapping[str, str], headers: Mapping[str, str] | None, *, what: str) -> Sequence[Any]:
    host = _host(url)
    try:
        with WebSession(deadline_seconds=_TIMEOUT_SECONDS, max_bytes=_FILE_BYTES) as session:
            answer = session.get(url, params=dict(params), headers=dict(headers or {}), timeout=_TIMEOUT_SECONDS)
            if answer.status_code != 200:
                raise SourceUnreachableError(
                    f"{what} at {host} answers with status {answer.status_code}.", hint="Does it need a token?"
                )
            found = answer.json()
    except (requests.RequestException, ValueError, RecursionError) as error:
        raise SourceUnreachableError(f"{what} at {host} cannot be read: {cause(error)}.") from None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise _not_its_own(url, what)
    return found


def of_window(
    cluster: str, start: datetime, end: datetime, *, folder: Path | None = None
) -> tuple[dict[str, Any], ...]:
    """Events of a cluster for a capture: those from an hour before its window on."""
    store = EventStore(cluster, folder)
    return tuple(event.to_json() for event in store.read(start - timedelta(hours=1), end))
