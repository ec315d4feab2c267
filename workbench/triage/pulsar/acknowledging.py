"""Do acknowledgements hold it up: a limit of unacknowledged messages, keys that moved, a hole, or messages sent again and again?"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.humanize import count, counted, duration, listed, percent
from workbench.judgement_numbers import MOST, SEVERAL
from workbench.queues.dispatching_queues import DispatchedConsumer, DispatchTools
from workbench.triage.finding import Action
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_status import behind, entries_a_second
from workbench.triage.pulsar.question_types import (
    DispatchLeaf,
    DispatchQuestion,
    Test,
    proof_of,
    says_no,
    stays_open,
)
from workbench.triage.verdict_names import DispatchVerdict

_INTERNAL = "internalStats of the topic, which the token must be allowed to read"

BLOCKED = DispatchQuestion(
    id="unacked_limit",
    question="Does the broker send nothing because too much is not acknowledged?",
    short="unacked limit?",
    rules=(
        proof_of(
            "subscription",
            "the broker sends nothing before the subscription acknowledges",
            Test("one_by_one", "=", 1),
            Test("blocked", "=", 1),
        ),
        proof_of(
            "consumers",
            "the broker sends nothing to any consumer before it acknowledges",
            Test("one_by_one", "=", 1),
            Test("blocked_readers", ">", 0),
            Test("blocked_readers", "=", 1, "readers"),
        ),
        says_no(
            "other_type", "this type acknowledges up to a position, and has no such limit", Test("one_by_one", "=", 0)
        ),
        says_no(
            "not_blocked",
            "neither the subscription nor all of its consumers are blocked",
            Test("blocked", "=", 0),
            Test("blocked_readers", "<", 1, "readers"),
        ),
        stays_open(
            "not_told",
            "the broker does not tell whether it is blocked",
            look="blockedSubscriptionOnUnackedMsgs in the topic's statistics",
        ),
    ),
    yes=DispatchVerdict.BLOCKED_ON_UNACKED,
)

HASHES = DispatchQuestion(
    id="hashes_blocked",
    question="Do keys wait for the consumer that had them before?",
    short="keys blocked?",
    rules=(
        says_no("other_type", "this type does not hold keys to consumers", Test("key_shared", "=", 0)),
        proof_of(
            "hashes",
            "entries are kept back for keys that another consumer has not acknowledged, and the first position stands",
            Test("key_shared", "=", 1),
            Test("blocking_hashes", ">", 0),
            Test("hash_blocks", ">", 0),
            Test("mark_delete_moved", "=", 0),
        ),
        proof_of(
            "joined",
            "consumers that have joined get nothing before the first position passes what was read by then",
            Test("key_shared", "=", 1),
            Test("joined_behind", ">", 0),
            Test("sent_messages", "=", 0),
            Test("most_permits", ">", 0),
        ),
        says_no(
            "no_hash", "no hash keeps entries back", Test("blocking_hashes", "=", 0), Test("joined_behind", "=", 0)
        ),
        says_no("hashes_pass", "hashes have moved, and nothing was kept back for them", Test("hash_blocks", "=", 0)),
        says_no(
            "moves_on", "hashes keep entries back, and the first position moves on", Test("mark_delete_moved", "=", 1)
        ),
        stays_open(
            "not_told",
            "which keys wait, or whether a delayed entry holds the first position, is not told",
            look="drainingHashes in the topic's statistics, and the entry after markDeletePosition",
        ),
    ),
    yes=DispatchVerdict.KEY_SHARED_BLOCKED,
)

HOLE = DispatchQuestion(
    id="hole_in_acks",
    question="Do a few entries stay unacknowledged while later ones are acknowledged?",
    short="hole in the acks?",
    rules=(
        proof_of(
            "hole",
            "the first position stands, and most of what was sent after it is acknowledged",
            Test("ack_ranges", ">", 0),
            Test("mark_delete_moved", "=", 0),
            Test("mark_delete_seconds", ">", 1, "objective_seconds"),
            Test("held_share", "<", MOST),
        ),
        says_no("in_order", "nothing is acknowledged beyond the first position", Test("ack_ranges", "=", 0)),
        says_no("moved", "the first position moves", Test("mark_delete_moved", "=", 1)),
        says_no(
            "lately",
            "the first position moved within the objective",
            Test("mark_delete_seconds", "<=", 1, "objective_seconds"),
        ),
        says_no(
            "most_held", "most of what was sent is not acknowledged: no hole of a few", Test("held_share", ">=", MOST)
        ),
        stays_open(
            "delayed",
            "the first position stands, and the entry after it may be a delayed one",
            Test("delayed_entries", ">", 0),
            look="the entry after markDeletePosition, by pulsar-admin topics get-message-by-id",
        ),
        stays_open("not_told", "the broker does not tell the acknowledged ranges", look=_INTERNAL),
    ),
    yes=DispatchVerdict.ACK_HOLE,
)

REDELIVERING = DispatchQuestion(
    id="sent_again",
    question="Is most of what is sent sent again?",
    short="sent again?",
    rules=(
        proof_of(
            "again",
            "most messages that are sent were sent before: consumers refuse them, do not acknowledge in time, or restart",
            Test("sent_messages", ">=", SEVERAL),
            Test("resent_share", ">=", MOST),
            Test("redelivered_per_second", ">", 0),
        ),
        says_no("nothing_sent", "nothing was sent between the looks", Test("sent_messages", "=", 0)),
        says_no("few", "most of what is sent is sent for the first time", Test("resent_share", "<", MOST)),
        says_no("none", "the broker sends nothing again", Test("redelivered_per_second", "=", 0)),
        says_no("hardly_sent", "hardly anything was sent between the looks", Test("sent_messages", "<", SEVERAL)),
        stays_open("not_counted", "what is sent again cannot be told from what is sent", look=_INTERNAL),
    ),
    yes=DispatchVerdict.REDELIVERING,
)


def _named(consumers: Iterable[DispatchedConsumer]) -> str:
    return listed([f"{it.name} ({count(it.unacked)} unacknowledged)" for it in consumers])


def _most_unacked(it: Known) -> list[DispatchedConsumer]:
    """Consumers with unacknowledged messages, those with the most first."""
    return sorted((c for c in it.reading or () if c.unacked), key=lambda c: (-(c.unacked or 0), c.name))


def _holders(it: Known) -> list[DispatchedConsumer]:
    return [c for c in it.reading or () if c.blocking_hashes]


def _own_limit(it: Known) -> int | None:
    """The limit of the subscription, if it is what blocks it: brokers lift that at half of it, and have one of their own."""
    limit, unacked = it.part.unacked_limit, it.part.unacked_messages
    return limit if it.part.blocked and limit and unacked is not None and 2 * unacked >= limit else None


def _blocked(it: Known) -> str:
    most = ""
    if limit := _own_limit(it):
        most = f" (the limit is {limit:,})"
    elif it.part.blocked:
        most = " (a limit of the broker: maxUnackedMessagesPerBroker)" if it.part.unacked_limit is not None else ""
    elif it.part.consumer_unacked_limit:
        most = f" (the limit is {it.part.consumer_unacked_limit:,} for each consumer)"
    return (
        f"Blocked: {counted(it.part.unacked_messages, 'message')} sent and not acknowledged{most}, so the broker sends nothing more;"
        f" {behind(it)}. Acknowledged: {entries_a_second(it.acked_per_second)}."
    )


def _acknowledge(tools: DispatchTools, it: Known) -> list[Action]:
    who = _most_unacked(it)
    limit = _own_limit(it)
    found = [
        Action(
            title="Find out why the consumers do not acknowledge" + (f": {_named(who)}" if who else ""),
            command=tools.topic_stats(it.part.topic, it.part.partition),
            verify="you know whether they hang, fail before they acknowledge, or forget it on a path of their code",
        ),
        Action(
            title="Restart those: what they have not acknowledged is sent again, to all consumers of the subscription",
            verify="unackedMessages falls below half of the limit, and lastAckedTimestamp advances",
            kind="restart_consumers",
            parameters={"members": [c.name for c in who]},
        ),
    ]
    if limit:
        found.append(
            Action(
                title="Only if they acknowledge, and many messages are rightly in work: raise the limit; brokers keep each in memory",
                command=tools.unacked_limit(it.part.topic, 2 * limit),
                verify="blockedSubscriptionOnUnackedMsgs stays false, and unackedMessages below the new limit",
            )
        )
    return found


def _release(tools: DispatchTools, it: Known) -> list[Action]:
    who = _holders(it)
    return [
        Action(
            title="Find out what the consumer that had the keys works on" + (f": {_named(who)}" if who else ""),
            command=tools.topic_stats(it.part.topic, it.part.partition),
            verify="you know whether it hangs, or is slow",
        ),
        Action(
            title="Restart that consumer: its messages go to those that have the keys now, in order",
            verify="drainingHashesCount is 0, and messages go to all consumers",
            kind="restart_consumers",
            parameters={"members": [c.name for c in who]},
        ),
    ]


def _close(tools: DispatchTools, it: Known) -> list[Action]:
    part, who = it.part, _most_unacked(it)
    at = part.mark_delete
    ledger, _, entry = (at or "").partition(":")
    following = f"{ledger}:{int(entry) + 1}" if ledger.isdigit() and entry.lstrip("-").isdigit() else None
    return [
        Action(
            title=f"Look at the first entry that is not acknowledged (after {at})" if at else "Look at the first entry",
            command=tools.show_entry(part.topic, part.partition, following)
            if following
            else tools.peek(part.topic, part.partition, part.subscription),
            verify="you know whose message it is; if there is none at this position, it is the first of the next ledger",
        ),
        Action(
            title="Find the consumer that holds it" + (f": {_named(who)}" if who else ""),
            command=tools.topic_stats(part.topic, part.partition),
            verify="you know whether it still works on it, or has forgotten it (an error path without acknowledgement)",
        ),
        Action(
            title="Restart that consumer, or let it acknowledge the message negatively: it is sent again",
            verify="markDeletePosition advances, and individuallyDeletedMessages of internalStats is []",
            kind="restart_consumers",
            parameters={"members": [c.name for c in who]},
        ),
        Action(
            title="If it comes back each time: handle it aside, and give the consumers a dead-letter policy and a timeout of"
            " acknowledgements",
            verify="the message is in the dead-letter topic, and markDeletePosition advances",
        ),
    ]


def _refused(tools: DispatchTools, it: Known) -> list[Action]:
    part = it.part
    return [
        Action(
            title="Look at the messages that come again, and in the consumers' logs for why they are not acknowledged",
            command=tools.peek(part.topic, part.partition, part.subscription),
            verify="you know whether they are refused, time out (acknowledgement timeout), or the consumers restart",
        ),
        Action(
            title="If they are refused: send them to a retry topic with a delay, and after some attempts to a dead-letter topic",
            verify="msgRateRedeliver falls below half of msgRateOut, and lastAckedTimestamp advances",
        ),
        Action(
            title="If they time out: make the consumers' acknowledgement timeout longer than the slowest message takes",
            verify="msgRateRedeliver falls, and the same messages are acknowledged",
        ),
    ]


def _hole(it: Known) -> str:
    part = it.part
    held = part.entries - (part.unread_entries or 0) if part.entries is not None else None
    return (
        f"A hole: {counted(held, 'entry', 'entries')} after {part.mark_delete} not acknowledged for {duration(it.mark_delete_seconds)},"
        f" while of the {counted(part.span_entries, 'entry', 'entries')} from there on the others are. Storage is kept from there on."
    )


def _keys(it: Known) -> str:
    who = _holders(it)
    hashes = counted(it.part.blocking_hashes, "hash", "hashes")
    if not who:
        return f"Keys wait: consumers that have joined get nothing before {it.part.mark_delete} advances; {behind(it)}."
    return f"Keys wait: {hashes} went to other consumers, and {_named(who)} must acknowledge first; {behind(it)}."


LEAVES = (
    DispatchLeaf(DispatchVerdict.BLOCKED_ON_UNACKED, _blocked, _acknowledge),
    DispatchLeaf(DispatchVerdict.KEY_SHARED_BLOCKED, _keys, _release),
    DispatchLeaf(DispatchVerdict.ACK_HOLE, _hole, _close),
    DispatchLeaf(
        DispatchVerdict.REDELIVERING,
        lambda it: (
            f"Sent again and again: {percent(it.resent_share)} of {count(it.sent_per_second)} messages/s were sent before;"
            f" {entries_a_second(it.acked_per_second)} are acknowledged, {behind(it)}."
        ),
        _refused,
    ),
)
