"""The questions about a subscription of Pulsar, in the order in which they are asked; and its verdicts' leaves."""

from __future__ import annotations

from workbench.triage.pulsar import acknowledging, losing, moving, sending, status, storing
from workbench.triage.pulsar.question import DispatchLeaf, DispatchQuestion
from workbench.triage.verdict import AnyVerdict, PulsarVerdict, Verdict

QUESTIONS: tuple[DispatchQuestion, ...] = (
    # Is there data, is it lost (what has expired waits no more), does anything wait, is it late?
    status.TOLD,
    losing.EXPIRING,
    status.WAITING,
    status.DELAYED,
    status.BEHIND,
    # Does anybody read, and does it get better by itself?
    losing.CONNECTED,
    status.CATCHING_UP,
    # Were its consumers made to connect again?
    moving.BAD_LOAD,
    moving.UNLOADS,
    storing.MISSES,
    status.STARTING,
    # Do acknowledgements hold it up?
    acknowledging.BLOCKED,
    acknowledging.HASHES,
    acknowledging.HOLE,
    # Does the broker send, and do the consumers take it?
    sending.THROTTLED,
    acknowledging.REDELIVERING,
    sending.STUCK,
    # Is the storage slow?
    storing.ACK_WRITES,
    storing.QUARANTINE,
    sending.PERMITS,
)
BY_ID = {it.id: it for it in QUESTIONS}


def _leaves() -> dict[AnyVerdict, DispatchLeaf]:
    found = {it.verdict: it for room in (status, losing, moving, storing, acknowledging, sending) for it in room.LEAVES}
    led_to = {verdict for it in QUESTIONS for verdict in it.verdicts} | {Verdict.CANNOT_TELL}
    if found.keys() != led_to or not set(PulsarVerdict) <= led_to:
        raise TypeError(f"Verdicts and leaves do not fit together: {sorted(found.keys() ^ led_to)}.")
    return found


LEAVES = _leaves()
