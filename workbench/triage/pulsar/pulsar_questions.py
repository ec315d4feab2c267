"""The questions about a subscription of Pulsar, in the order in which they are asked; and its verdicts' leaves."""

from __future__ import annotations

from workbench.triage.pulsar import (
    acknowledging,
    broker_sending,
    losing_messages,
    moving_topics,
    pulsar_status,
    slow_storage,
)
from workbench.triage.pulsar.question_types import DispatchLeaf, DispatchQuestion
from workbench.triage.verdict_names import AnyVerdict, DispatchVerdict, Verdict

QUESTIONS: tuple[DispatchQuestion, ...] = (
    # Is there data, is it lost (what has expired waits no more), does anything wait, is it late?
    pulsar_status.TOLD,
    losing_messages.EXPIRING,
    pulsar_status.WAITING,
    pulsar_status.DELAYED,
    pulsar_status.BEHIND,
    # Does anybody read, and does it get better by itself?
    losing_messages.CONNECTED,
    pulsar_status.CATCHING_UP,
    # Were its consumers made to connect again?
    moving_topics.BAD_LOAD,
    moving_topics.UNLOADS,
    slow_storage.MISSES,
    pulsar_status.STARTING,
    # Do acknowledgements hold it up?
    acknowledging.BLOCKED,
    acknowledging.HASHES,
    acknowledging.HOLE,
    # Does the broker send, and do the consumers take it?
    broker_sending.THROTTLED,
    acknowledging.REDELIVERING,
    broker_sending.STUCK,
    # Is the storage slow?
    slow_storage.ACK_WRITES,
    slow_storage.QUARANTINE,
    broker_sending.PERMITS,
)


def _leaves() -> dict[AnyVerdict, DispatchLeaf]:
    found = {
        it.verdict: it
        for room in (pulsar_status, losing_messages, moving_topics, slow_storage, acknowledging, broker_sending)
        for it in room.LEAVES
    }
    led_to = {verdict for it in QUESTIONS for verdict in it.verdicts} | {Verdict.CANNOT_TELL}
    if found.keys() != led_to or not set(DispatchVerdict) <= led_to:
        raise TypeError(f"Verdicts and leaves do not fit together: {sorted(found.keys() ^ led_to)}.")
    return found


LEAVES = _leaves()
