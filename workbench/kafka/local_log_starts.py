"""Where the broker's own disk begins in each partition (KIP-405): ListOffsets -4, which the client has no call for.

What is before it is in remote storage alone. Of a topic without remote storage it is the log's start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.kafka.leader_offsets import EARLIEST_LOCAL, OffsetQuestion, ask_leaders
from workbench.queues.snapshot_views import Partition

_SECONDS, _SILENCE_SECONDS = 3.0, 1.0  # worth no longer wait


def local_starts(
    bootstrap: str, properties: Mapping[str, Any], leaders: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Ask each leader once. What has no answer is left out: a broker before Kafka 3.6, one that is silent, or no right (DESCRIBE).

    Args:
        bootstrap, properties: as for librdkafka.
        leaders: partition to broker id.
    """
    question = OffsetQuestion(EARLIEST_LOCAL)
    [told] = ask_leaders(bootstrap, properties, leaders, [question], seconds=_SECONDS, silence=_SILENCE_SECONDS)
    return {part: it.offset for part, it in told.items() if it.offset >= 0}
