"""The client of librdkafka that asks about groups and topics by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from workbench.errors import UsageError
from workbench.humanize import is_text


class TextAdminClient(AdminClient):
    """An AdminClient that refuses a name that is no text; its base (2.16) ends the process by SIGSEGV.

    What a shell passes need not be UTF-8, and Python keeps such bytes as lone surrogates. No group and no topic has such a name.
    The base overrides its own base with other parameters, which no third class can have.
    """

    def describe_consumer_groups(self, group_ids: list[str], **options: Any) -> Any:  # type: ignore[override]
        """See the base class."""
        _check(group_ids)
        return super().describe_consumer_groups(group_ids, **options)

    def delete_consumer_groups(self, group_ids: list[str], **options: Any) -> Any:  # type: ignore[override]
        """See the base class."""
        _check(group_ids)
        return super().delete_consumer_groups(group_ids, **options)

    def describe_topics(self, topics: TopicCollection, **options: Any) -> Any:  # type: ignore[override]
        """See the base class."""
        _check(topics.topic_names)
        return super().describe_topics(topics, **options)


def _check(names: Sequence[str]) -> None:
    for name in names:
        if not is_text(name):
            raise UsageError(
                f"{name!r} is no name in Kafka: it is not UTF-8.",
                hint="Is it written in another encoding, or cut within a character?",
            )
