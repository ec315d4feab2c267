"""All subscriptions of a cluster: topics are listed, then asked in parallel. One without an answer is named, the others are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import quote

from workbench.errors import EvidenceError, SourceUnreachableError
from workbench.pulsar.admin import AT_ONCE, NotThereError, PulsarAdmin
from workbench.pulsar.topic_names import TopicName, part_name, without_partitions
from workbench.pulsar.topic_stats import SubscriptionPart, parse_partitions, parse_topic

_OWN_TENANT = "pulsar"  # of brokers among themselves
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSurvey:
    """What was read, and what could not be: in words, and the topics that it is about."""

    parts: tuple[SubscriptionPart, ...]
    incomplete: tuple[str, ...]
    partial: frozenset[TopicName]


def survey(admin: PulsarAdmin, *, namespaces: Sequence[str] = (), with_ages: bool = False) -> SubscriptionSurvey:
    """Read every subscription of these namespaces; without any, of all that may be listed.

    Args:
        with_ages: also ask for the oldest entry of each backlog, which brokers read from storage.

    Raises:
        SourceUnreachableError: if no topics can be listed.
    """
    topics, unlisted = _listed(admin, namespaces)

    def read(item: tuple[TopicName, bool]) -> tuple[list[SubscriptionPart], list[str]]:
        topic, is_partitioned = item
        missing: list[str] = []
        flags = {
            "getPreciseBacklog": "true",
            "subscriptionBacklogSize": "true",
            "getEarliestTimeInBacklog": "true" if with_ages else "false",
        }
        try:
            if not is_partitioned:
                return parse_topic(admin.get(f"{topic.path}/stats", flags), topic), missing
            found = admin.get(f"{topic.path}/partitioned-stats", {**flags, "perPartition": "true"})
            return parse_partitions(found, topic, missing), missing
        except NotThereError:
            return (
                [],
                missing,
            )  # deleted since it was listed; a partitioned one that nobody has used yet has no partitions
        except (SourceUnreachableError, EvidenceError) as error:
            return [], [error.message]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(read, topics))
    return SubscriptionSurvey(
        parts=tuple(part for found, _ in answers for part in found),
        incomplete=(*(it.message for it in unlisted), *(text for _, missing in answers for text in missing)),
        partial=frozenset(topic for (topic, _), (_, missing) in zip(topics, answers, strict=True) if missing),
    )


def topics_of(admin: PulsarAdmin, namespaces: Sequence[str] = ()) -> list[tuple[TopicName, bool]]:
    """Topics of these namespaces (none: of all that may be listed), each with whether it has partitions.

    Raises:
        SourceUnreachableError: if some cannot be listed.
    """
    topics, unlisted = _listed(admin, namespaces)
    if unlisted:
        raise unlisted[0]
    return topics


def _listed(
    admin: PulsarAdmin, namespaces: Sequence[str]
) -> tuple[list[tuple[TopicName, bool]], list[SourceUnreachableError]]:
    """The same, and why some namespaces cannot be listed.

    Raises:
        SourceUnreachableError: if none can.
    """
    if namespaces:
        asked, unlisted = list(namespaces), list[SourceUnreachableError]()
    else:
        tenants = [it for it in _names(admin, "tenants") if it != _OWN_TENANT]
        asked, unlisted = _each(tenants, lambda it: _names(admin, f"namespaces/{quote(it, safe='')}"))
    topics, more = _each(asked, lambda it: _topics(admin, it))
    unlisted += more
    if unlisted and len(more) == len(asked):
        raise unlisted[0]
    return topics, unlisted


def counted(admin: PulsarAdmin, parts: Sequence[SubscriptionPart], incomplete: list[str]) -> list[SubscriptionPart]:
    """The same with their backlogs in messages: brokers read the entries from storage, up to a limit of their own (10,000 each).

    Args:
        incomplete: receives whose messages could not be counted to the end.
    """

    def count(part: SubscriptionPart) -> SubscriptionPart:
        if part.messages is not None or not part.entries:
            return part
        topic = part_name(part.topic, part.partition)
        try:
            found = admin.count_backlog(f"{topic.path}/subscription/{quote(part.subscription, safe='')}/analyzeBacklog")
        except SourceUnreachableError as error:
            incomplete.append(error.message)
            return part
        messages = found.get("messages") if isinstance(found, dict) and found.get("aborted") is False else None
        if not isinstance(messages, int) or messages < 0:
            incomplete.append(f"The messages of {part.subscription} on {topic} were not counted to the end.")
            return part
        return replace(part, messages=messages)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(count, parts))


def _topics(admin: PulsarAdmin, namespace: str) -> list[tuple[TopicName, bool]]:
    """Topics of a namespace, each with whether it has partitions."""
    path = f"persistent/{quote(namespace)}"
    partitioned = {it for it in map(TopicName.parse, _names(admin, f"{path}/partitioned")) if it is not None}
    plain = without_partitions(_names(admin, path), partitioned)
    return [*((it, True) for it in sorted(partitioned)), *((it, False) for it in plain)]


def _each(names: Sequence[str], listed: Callable[[str], list[_T]]) -> tuple[list[_T], list[SourceUnreachableError]]:
    """What these list, and why some cannot be listed."""

    def told(name: str) -> list[_T] | SourceUnreachableError:
        try:
            return listed(name)
        except SourceUnreachableError as error:
            return error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(told, names))
    return (
        [it for some in found if isinstance(some, list) for it in some],
        [it for it in found if isinstance(it, SourceUnreachableError)],
    )


def _names(admin: PulsarAdmin, path: str) -> list[str]:
    found = admin.get(path)
    if not isinstance(found, list) or not all(isinstance(it, str) for it in found):
        raise SourceUnreachableError(f"The admin answers to {path} with something that is no list of names.")
    return found
