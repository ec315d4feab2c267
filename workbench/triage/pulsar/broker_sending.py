"""Does the broker send: a rate limit, a dispatcher that stands, or consumers that take nothing more?"""

from __future__ import annotations

from workbench.humanize import count, counted, listed
from workbench.judgement_numbers import LESS
from workbench.queues.dispatching_queues import DispatchTools
from workbench.triage.finding import Action
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_status import behind, entries_a_second
from workbench.triage.pulsar.question_types import (
    DispatchLeaf,
    DispatchQuestion,
    Test,
    proof_of,
    says_no,
    says_yes,
    stays_open,
)
from workbench.triage.shared_actions import DUMPS
from workbench.triage.verdict_names import DispatchVerdict

_STORAGE = "the brokers' pulsar_ml_cache_misses_rate and the bookies' bookkeeper_server_READ_ENTRY_REQUEST"

THROTTLED = DispatchQuestion(
    id="rate_limited",
    question="Does a dispatch rate limit keep it back?",
    short="rate limited?",
    rules=(
        proof_of(
            "told",
            "the broker kept entries back by a rate limit, from consumers that would take more",
            Test("throttled_events", ">", 0),
            Test("most_permits", ">", 0),
        ),
        says_no("not_kept_back", "no rate limit kept anything back", Test("throttled_events", "=", 0)),
        says_yes(
            "at_limit",
            "it gets what the limit allows, and its consumers would take more",
            Test("limit_per_second", ">", 0),
            Test("sent_per_second", ">=", LESS, "limit_per_second"),
            Test("most_permits", ">", 0),
        ),
        says_no("consumers_full", "its consumers take nothing more, limit or not", Test("most_permits", "<=", 0)),
        says_no(
            "no_limit",
            "there is no rate limit",
            Test("limit_per_second", "=", 0),
            Test("limit_bytes_per_second", "=", 0),
        ),
        stays_open(
            "not_told",
            "whether a rate limit keeps it back is not told",
            look="the topic's policies dispatchRate and subscriptionDispatchRate",
        ),
    ),
    yes=DispatchVerdict.DISPATCH_THROTTLED,
)

STUCK = DispatchQuestion(
    id="dispatcher_stands",
    question="Does the broker neither read nor send, though consumers wait?",
    short="dispatcher stuck?",
    rules=(
        proof_of(
            "stands",
            "entries wait, consumers have permits, and the broker neither reads nor sends at either look",
            Test("waiting_entries", ">", 0),
            Test("sure_permits", ">", 0),
            Test("sent_messages", "=", 0),
            Test("read_moved", "=", 0),
            Test("reads", "=", 0),
            Test("throttled_events", "=", 0),
        ),
        says_no("sends", "the broker sends", Test("sent_messages", ">", 0)),
        says_no(
            "no_permits",
            "the consumers take nothing more, or one of Key_Shared that may have the keys of what waits",
            Test("sure_permits", "<=", 0),
        ),
        says_no("all_sent", "everything was sent", Test("waiting_entries", "=", 0)),
        stays_open(
            "reading",
            "the broker sends nothing, and has asked the storage for entries",
            Test("reads", "=", 1),
            look=_STORAGE,
        ),
        stays_open(
            "not_told",
            "whether the broker reads, or a rate limit keeps it back, is not told",
            look="internalStats of the topic, and whether unloading the topic helps",
        ),
    ),
    yes=DispatchVerdict.DISPATCHER_STUCK,
)

PERMITS = DispatchQuestion(
    id="consumers_full",
    question="Do the consumers hold all that they take, or all that there is?",
    short="consumers full?",
    rules=(
        proof_of("full", "no consumer takes anything more at either look", Test("most_permits", "<=", 0)),
        says_yes(
            "full_at_a_look",
            "no consumer takes anything more at one of the looks: one that waits for the broker has permits all the time",
            Test("least_permits", "<=", 0),
        ),
        says_yes(
            "keys_full",
            "entries are kept back for the keys of consumers that take nothing more; others have room",
            Test("key_shared", "=", 1),
            Test("full_readers", ">", 0),
            Test("replay_entries", ">", 0),
        ),
        says_yes("holds_all", "everything was sent to consumers, and waits there", Test("waiting_entries", "=", 0)),
        stays_open(
            "takes_more",
            "consumers take what is sent, and less is sent than waits: the storage or the broker may be slow",
            Test("most_permits", ">", 0),
            look=_STORAGE,
        ),
        stays_open(
            "not_told",
            "how much the consumers that get entries still take is not told",
            look="availablePermits of each in the topic's statistics; consumers of a failover need different names",
        ),
    ),
    yes=DispatchVerdict.NO_PERMITS,
)


def _limit(it: Known) -> str:
    limit = it.part.limit_per_second
    allows = f"a limit of {count(limit)} messages/s" if limit else "a dispatch rate limit"
    arriving = entries_a_second(it.arrived_per_second)
    return f"Kept back by {allows}: {count(it.sent_per_second)} messages/s are sent, {arriving} arrive; {behind(it)}."


def _lift(tools: DispatchTools, it: Known) -> list[Action]:
    wanted = max(it.arrived_per_second or 0.0, it.sent_per_second or 0.0, it.part.limit_per_second or 0.0)
    return [
        Action(
            title="Find which limit it is (subscription, topic or broker), and who has set it for whom",
            command=tools.show_limit(it.part.topic),
            verify="you know whose other consumers the limit protects",
        ),
        Action(
            title=f"Raise it above what arrives ({entries_a_second(it.arrived_per_second)}; batches count by messages)",
            command=tools.set_limit(it.part.topic, max(1, round(2 * wanted))),
            verify="dispatchThrottledMsgEvents of the subscription no longer grow, and msgBacklog shrinks",
            kind="raise_quota",
        ),
    ]


def _full(it: Known) -> str:
    acked, arriving = entries_a_second(it.acked_per_second), entries_a_second(it.arrived_per_second)
    if it.key_shared and 0 < len(it.full) < (it.readers or 0):
        return (
            f"Keys of {listed([c.name for c in it.full])} wait, while other consumers have room: {acked} are acknowledged,"
            f" {arriving} arrive; {behind(it)}."
        )
    if it.part.unread_entries == 0 and (it.most_permits or 0) > 0:
        return f"The consumers hold everything: {behind(it)}; they acknowledge {acked}, {arriving} arrive."
    return f"The consumers take nothing more: they acknowledge {acked}, {arriving} arrive; {behind(it)}."


def _help_consumers(tools: DispatchTools, it: Known) -> list[Action]:
    part = it.part
    names = [c.name for c in it.full or it.reading or ()]
    more = (
        "Add consumers: each of a Shared or Key_Shared subscription gets its part (of Key_Shared as many as there are busy keys)"
        if it.one_by_one
        else "Give the topic more partitions, or make the subscription Key_Shared: of this type one consumer reads a partition"
    )
    return [
        Action(
            title=f"See what the consumers do at this moment ({DUMPS})" + (f": {listed(names)}" if names else ""),
            command=tools.topic_stats(part.topic, part.partition),
            verify="you know what they wait for: their own work, a downstream system, or nothing (then they hang)",
        ),
        Action(
            title="If they hang: restart them; what they have not acknowledged is sent again",
            verify="lastAckedTimestamp advances, and availablePermits is above 0 again and again",
            kind="restart_consumers",
            parameters={"members": names},
        ),
        Action(title=more, verify="more is acknowledged than arrives, and msgBacklog shrinks", kind="add_consumers"),
    ]


def _unload(tools: DispatchTools, it: Known) -> list[Action]:
    part = it.part
    return [
        Action(
            title="Keep the evidence for a report to Pulsar: both statistics of the topic",
            command=f"{tools.topic_stats(part.topic, part.partition)} > stats.json\n"
            f"{tools.internal_stats(part.topic, part.partition)} > stats-internal.json",
            verify="both files are there",
        ),
        Action(
            title="Unload that topic: the broker loads it anew, and its clients connect again within seconds. What is not"
            " acknowledged is sent again",
            command=tools.unload(part.topic, part.partition),
            verify="msgOutCounter grows, readPosition advances, and msgBacklog shrinks",
        ),
    ]


LEAVES = (
    DispatchLeaf(DispatchVerdict.DISPATCH_THROTTLED, _limit, _lift),
    DispatchLeaf(
        DispatchVerdict.DISPATCHER_STUCK,
        lambda it: (
            f"The broker stands: {behind(it)} at {it.part.read_position}, consumers take {counted(it.least_permits, 'message')}"
            " more, and it neither reads nor sends."
        ),
        _unload,
    ),
    DispatchLeaf(DispatchVerdict.NO_PERMITS, _full, _help_consumers),
)
