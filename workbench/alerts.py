"""Alerts of monitoring systems: the subscription that each one names, and its start time.

Alertmanager's webhook (version 4, also as Grafana sends it), the list of Alertmanager's API v2, that of Prometheus' API, and Grafana's
form from before version 9. Unknown fields are ignored, as Alertmanager's documentation requires. Everything in it is foreign text: it
is shown and compared, never executed. A bad alert is left out and counted; the others are read.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError, WindowError
from workbench.humanize import listed, plural, printable
from workbench.limited_reads import read_within
from workbench.window import parse_instant

if TYPE_CHECKING:
    from workbench.settings import Settings

# What `workbench serve` itself posts to an Alertmanager: it is no reason for another triage.
OWN_ALERT = "WorkbenchVerdict"
# Label names of exporters and frameworks, the surest first: "group" may as well be a team's. Every label that a shipped profile reads
# as group or topic is among them (tests/profiles/test_alert_labels.py). Compared without case, "_" and prefixes.
_GROUP = (
    "consumer_group", "consumer_group_id", "consumer_group_name", "messaging_consumer_group_name", "messaging_kafka_consumer_group",
    "redpanda_group", "kafka_group", "group_id", "group",
)  # fmt: skip
_TOPIC = ("topic", "topic_name", "topic_id", "messaging_destination_name", "redpanda_topic", "kafka_topic")
# By profile: anything may have a label of this name, so it is a group's in alerts of the clusters with that profile alone.
_GENERAL = {"aiven": ("name",)}
_CLUSTER = ("kafka_cluster", "cluster", "cluster_name")
_PREFIXES = re.compile(r"^(?:dimension|exported|label|tag)_")  # of CloudWatch's exporters, of Prometheus, of others
# Groups of other things: of rules, of machines, of logs, of clients.
_OTHER_GROUPS = re.compile(
    r"(?:alert|rule|resource|security|log|node|auto_?scaling|target|placement|work|user|instance)_?group"
)
_PERSISTENT_TOPIC = re.compile(r"persistent://(.+?)(?:-partition-\d+)?", re.DOTALL)
_HINT = "It should be the JSON that Alertmanager posts to a webhook (version 4)."
_MAX_BYTES = 4 << 20  # Alertmanager groups alerts; no valid payload is larger
_LONGEST_VALUE = 1000  # of a label that a pattern of the settings is matched with: the matcher may go back in it
_MOST_TAGS = 50_000  # of Grafana's old form, all alerts together
_MOST_ITEMS = 1_000_000  # of the JSON, counted by its commas and brackets: some 60 bytes each once they are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert, reduced to what a triage needs; an empty text if a field is missing.

    Attributes:
        starts_at: when it started firing, or None.
        truncated: number of alerts of this message that Alertmanager left out.
        unread: labels that look like a group, though none was read: the alert is not about the whole cluster.
        taken_for: the alert's own name of the cluster, if it is not that of the settings.
    """

    name: str
    cluster: str
    group: str
    topic: str
    starts_at: datetime | None
    firing: bool
    fingerprint: str
    truncated: int = 0
    unread: tuple[str, ...] = ()
    taken_for: str = ""

    def doubts(self) -> str:
        """In words what was not understood of it; empty if nothing."""
        found = []
        if self.unread:
            found.append(f"its group was not read from {listed(self.unread)}")
        if self.taken_for:
            found.append(f"its cluster {printable(self.taken_for)} was taken for {printable(self.cluster)}")
        return "; ".join(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """The alerts of one message, firing ones first; the others: left out because they cannot be read, and why the first of them.

    Attributes:
        truncated: number of alerts that Alertmanager left out.
    """

    alerts: tuple[Alert, ...]
    dropped: int = 0
    problem: str = ""
    truncated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How alerts name groups, topics and clusters.

    Attributes:
        group, topic, cluster: further label names, tried first.
        matches: cluster of the settings to the matchers of its series.
        members: of each cluster, client id to group.
        general: of each cluster, labels of groups whose names say nothing, tried last.
    """

    group: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    matches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    general: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> Names:
        """Those of the settings."""
        own, clusters = settings.alerts, settings.clusters
        return cls(
            group=tuple(own.group),
            topic=tuple(own.topic),
            cluster=tuple(own.cluster),
            matches={name: cluster.match for name, cluster in clusters.items()},
            members={name: cluster.members for name, cluster in clusters.items() if cluster.members},
            general={
                name: labels for name, of in clusters.items() for it in of.profiles if (labels := _GENERAL.get(it))
            },
        )

    def group_of(self, client: str, cluster: str) -> str:
        """The group of a client id in a cluster; of an unknown cluster, if all clusters that know the client agree; else empty."""
        if cluster in self.matches:
            return self.members.get(cluster, {}).get(client, "")
        groups = {members[client] for members in self.members.values() if client in members}
        return groups.pop() if len(groups) == 1 else ""

    def cluster_of(self, labels: Mapping[str, str]) -> tuple[str, str]:
        """The cluster of the settings, and the alert's own name for it if it is taken for the only one.

        By its name, else by the labels with which `match` selects its series, else the only one if it has no `match`: all series of
        its Prometheus are its own.
        """
        said, _ = _first(labels, self.cluster, _CLUSTER)
        if said in self.matches:
            return said, ""
        fits = {name: _fits(match, labels) for name, match in self.matches.items()}
        best = max(fits.values(), default=0)
        found = [name for name, number in fits.items() if number == best]
        if best and len(found) == 1:
            return found[0], ""
        if len(self.matches) == 1 and not next(iter(self.matches.values())):
            return next(iter(self.matches)), said
        return said, ""


NO_NAMES = Names()


def read_message(path: Path, *, names: Names = NO_NAMES) -> AlertMessage:
    """Read a message from a file.

    Raises:
        UsageError: naming the file and what is wrong with it.
    """
    try:
        text = read_within(path, _MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise UsageError(f"{path} is larger than any Alertmanager webhook.") from None
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"The alert {path} cannot be read: {reason}.") from None
    return parse_message(text, name=str(path), names=names)


def read_alerts(path: Path) -> list[Alert]:
    """The alerts of `read_message`."""
    return list(read_message(path).alerts)


def parse_alerts(text: str, *, name: str = "the alert") -> list[Alert]:
    """The alerts of `parse_message`."""
    return list(parse_message(text, name=name).alerts)


def parse_message(text: str, *, name: str = "the alert", names: Names = NO_NAMES) -> AlertMessage:
    """Read a message.

    Raises:
        UsageError: if it has none of the known forms, or no alert that can be read.
    """
    if sum(map(text.count, ",[{")) > _MOST_ITEMS:
        raise UsageError(f"{name} has more items than any Alertmanager webhook.", hint=_HINT)
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{name} is not JSON.", hint=_HINT) from None
    items, truncated = _items(document)
    if items is None:
        raise UsageError(f"{name} is not an Alertmanager webhook: it has no list of alerts.", hint=_HINT)
    found: list[Alert] = []
    problems: list[str] = []
    for item in items:
        try:
            found.append(replace(_alert(item, names), truncated=truncated))
        except _BadAlertError as error:
            problems.append(str(error))
    if not found:
        if problems:
            raise UsageError(f"{name} has no alert that can be read: {problems[0]}.", hint=_HINT)
        raise UsageError(f"{name} has no alert.", hint=_HINT)
    found.sort(key=lambda it: not it.firing)
    return AlertMessage(
        alerts=tuple(found), dropped=len(problems), problem=problems[0] if problems else "", truncated=truncated
    )


class _BadAlertError(Exception):
    """One alert that cannot be read; the text says why, without its values."""


def _items(document: Any) -> tuple[Sequence[Any] | None, int]:
    """The alerts of a document, and how many Alertmanager left out; None if it has no known form."""
    if isinstance(document, list):
        return document, 0
    if not isinstance(document, dict):
        return None, 0
    if "alerts" not in document and isinstance(data := document.get("data"), dict | list):
        return _items(data)  # the envelope of an API
    if "alerts" not in document and isinstance(document.get("ruleName"), str):
        return list(_of_old_grafana(document)), 0
    alerts, truncated = document.get("alerts"), document.get("truncatedAlerts")
    missing = truncated if isinstance(truncated, int) and 0 < truncated < 1 << 31 else 0
    return alerts if isinstance(alerts, list) else None, missing


def _of_old_grafana(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Alerts of a notification of Grafana's old alerting: each matching series has its labels in `tags`.

    Raises:
        UsageError: if more would be built of it than a message may have.
    """
    firing = document.get("state") in ("alerting", "no_data", "pending")
    matches, shared = document.get("evalMatches"), document.get("tags")
    matches = matches if isinstance(matches, list) and matches else [{}]
    shared = shared if isinstance(shared, dict) else {}
    if len(matches) * len(shared) > _MOST_TAGS:  # each gets all of them
        raise UsageError("The alert has more tags than any of Grafana.", hint=_HINT)
    for match in matches:
        own = match.get("tags") if isinstance(match, dict) else None
        yield {
            "labels": {**shared, **(own if isinstance(own, dict) else {}), "alertname": document["ruleName"]},
            "status": "firing" if firing else "resolved",
        }


def _alert(item: Any, names: Names) -> Alert:
    """Reduce one alert.

    Raises:
        _BadAlertError: if it cannot be read.
    """
    if not isinstance(item, dict) or not isinstance(item.get("labels"), dict):
        raise _BadAlertError("an alert without labels")
    labels = {_text(name): _text(value) for name, value in item["labels"].items() if isinstance(value, str)}
    starts_at = _instant(item, "startsAt", "activeAt")
    cluster, taken_for = names.cluster_of(labels)
    group, _ = _first(labels, names.group, _GROUP)
    if not group:
        clients = (names.group_of(client, cluster) for key, client in labels.items() if key in _CLIENT)
        group = next(filter(None, clients), "") or _first(labels, names.general.get(cluster, ()), ())[0]
    topic = _first(labels, names.topic, _TOPIC)[0]
    if (persistent := _PERSISTENT_TOPIC.fullmatch(topic)) is not None:
        topic = persistent[1]
        if subscription := labels.get("subscription", ""):  # of one topic, and called so here
            group = f"{subscription}@{topic}"
    fingerprint = item.get("fingerprint")
    return Alert(
        name=labels.get("alertname", ""),
        cluster=cluster,
        group=group,
        topic=topic,
        starts_at=starts_at,
        firing=_is_firing(item),
        fingerprint=_text(fingerprint) if isinstance(fingerprint, str) else "",
        unread=() if group else tuple(_text(name) for name, value in item["labels"].items() if _is_unread(name, value)),
        taken_for=taken_for,
    )


_CLIENT = ("client_id", "clientId", "client", "application", "app", "component_id")


def _is_firing(item: Mapping[str, Any]) -> bool:
    """By the webhook's status, by the state of Prometheus' API, or else (Alertmanager's API) by its end."""
    said = item.get("status", item.get("state"))
    if isinstance(said, str):
        return said in ("firing", "active", "unprocessed", "suppressed")
    try:
        ends_at = _instant(item, "endsAt")
    except _BadAlertError:  # an end that no calendar has is not over
        return True
    return ends_at is None or ends_at > datetime.now(UTC)


def _instant(item: Mapping[str, Any], *keys: str) -> datetime | None:
    """A time of an alert; Go's zero time means "not set".

    Raises:
        _BadAlertError: if it is no time.
    """
    for key in keys:
        value = item.get(key)
        if value in (None, ""):
            continue
        if not isinstance(value, str):
            raise _BadAlertError(f"{key} is no text")
        try:
            return None if value.startswith("0001-") else parse_instant(value)
        except WindowError:
            raise _BadAlertError(f"{key} is no time") from None
    return None


def _text(text: str) -> str:
    """A text without lone surrogates, which nothing can store."""
    return text.encode(errors="backslashreplace").decode()


def _plain(name: str) -> str:
    """A label's name as it is compared: `dimension_Consumer_Group` as `consumergroup`."""
    return _PREFIXES.sub("", name.lower().replace(".", "_").replace("-", "_")).replace("_", "")


def _first(labels: Mapping[str, str], own: Sequence[str], known: Sequence[str]) -> tuple[str, str]:
    """Value and name of the label that the first of these names means; empty texts if there is none."""
    for name in own:
        if labels.get(name):
            return labels[name], name
    by_name = {_plain(name): name for name, value in reversed([*labels.items()]) if value}
    for name in known:
        if (found := by_name.get(_plain(name))) is not None:
            return labels[found], found
    return "", ""


def _is_unread(name: str, value: object) -> bool:
    """Whether a label may be a group's that was not read: an unknown name, or a value that is no text."""
    if "group" not in name.lower() or _OTHER_GROUPS.search(name.lower()) is not None:
        return False
    return value not in ("", None)


def _fits(match: Mapping[str, str], labels: Mapping[str, str]) -> int:
    """How many labels of an alert are as a cluster's `match` selects its series; 0 if one is not, or none is there."""
    number = 0
    for name, text in match.items():
        value = labels.get(name)
        if value is None:
            continue
        if len(value) > _LONGEST_VALUE or not _matched(text, value):
            return 0
        number += not text.startswith("!")
    return number


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=~": lambda pattern, value: re.fullmatch(pattern, value) is not None,
    "!~": lambda pattern, value: re.fullmatch(pattern, value) is None,
    "!=": lambda other, value: other != value,
}


def _matched(text: str, value: str) -> bool:
    """Whether a label's value is as a matcher of the settings says."""
    found = _OPERATORS.get(text[:2])
    return found(text[2:], value) if found is not None else text == value


def told(alerts: Sequence[Alert]) -> list[str]:
    """Sentences about what was not understood of alerts, each once."""
    return list(dict.fromkeys(f"Alert {printable(it.name)}: {doubts}." for it in alerts if (doubts := it.doubts())))


def left_out(message: AlertMessage) -> list[str]:
    """Sentences about alerts that are not among those of a message."""
    found = []
    if message.dropped:
        found.append(f"{plural(message.dropped, 'alert')} of this message cannot be read: {message.problem}.")
    if message.truncated:
        said = f"Alertmanager left {plural(message.truncated, 'alert')} out of this message"
        found.append(f"{said}, so this result is incomplete.")
    return found
