"""Is the storage what is slow: what is sent again and not in the cache, acknowledgements as writes, or few bookies that carry all?"""

from __future__ import annotations

from workbench.humanize import count, counted, duration, listed, percent, printable, significant
from workbench.judgement_numbers import APART, FLUSH_SECONDS, MOST, PART, PAUSE_SECONDS
from workbench.pulsar_metrics_by_setting import BOOKIE_CLIENT, CURSORS, TOPICS
from workbench.queues.dispatching_queues import DispatchTools
from workbench.triage.finding import Action
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_status import behind
from workbench.triage.pulsar.question_types import (
    DispatchLeaf,
    DispatchQuestion,
    Test,
    proof_of,
    says_no,
    says_yes,
    stays_open,
)
from workbench.triage.verdict_names import DispatchVerdict

_SLOW = Test("write_seconds", ">=", FLUSH_SECONDS)
_TAKE_MORE = Test("most_permits", ">", 0)
_FULL = says_no("consumers_full", "its consumers take nothing more, slow storage or not", Test("most_permits", "<=", 0))
_FAST = says_no("fast", "its broker's writes to bookies are quick", Test("write_seconds", "<", FLUSH_SECONDS))
_CLIENT_STATS = f"ADD_ENTRY of the brokers' metrics: {BOOKIE_CLIENT.turned_on}"

MISSES = DispatchQuestion(
    id="sent_again_from_bookies",
    question="After a restart of the consumers, is what is sent again read from bookies, because the cache has dropped it?",
    short="cache missed?",
    rules=(
        proof_of(
            "missed",
            "consumers had to connect again, and much of what is sent was sent before and is read from bookies again",
            Test("missed_again_share", ">=", PART),
            Test("connected_seconds", "<=", PAUSE_SECONDS),
        ),
        says_no("nothing_sent", "nothing was sent between the looks", Test("sent_messages", "=", 0)),
        says_no(
            "stays",
            "a consumer has been connected for longer than a start takes: it is sent again for another reason",
            Test("connected_seconds", ">", PAUSE_SECONDS),
        ),
        says_no("few_again", "little of what is sent was sent before", Test("resent_share", "<", PART)),
        says_no(
            "from_cache",
            "what is sent again comes from the cache",
            Test("missed_at_most", "<", PART),
        ),
        stays_open(
            "not_told",
            "whether what is sent again comes from bookies is not told, or it may be what other subscriptions of the topic read",
            look=f"pulsar_storage_read_cache_misses_rate of the topic: {TOPICS.name}",
        ),
    ),
    yes=DispatchVerdict.REDELIVERY_CACHE_MISS,
    by="side",
)

ACK_WRITES = DispatchQuestion(
    id="acks_as_writes",
    question="Are acknowledgements most of what is written to bookies, and is writing slow?",
    short="acks as writes?",
    rules=(
        says_yes(
            "most",
            "most of the writes to bookies are positions of subscriptions, writing is slow, and consumers would take more",
            Test("ack_share", ">=", MOST),
            _SLOW,
            _TAKE_MORE,
        ),
        says_no("few", "acknowledgements are the smaller part of the writes", Test("ack_share", "<", MOST)),
        _FAST,
        _FULL,
        stays_open(
            "not_told",
            "how much of the writes acknowledgements are, or how long writes take, is not told",
            look=f"persistLedgerSucceed ({CURSORS.name}=true) and {_CLIENT_STATS}",
        ),
    ),
    yes=DispatchVerdict.ACK_WRITE_AMPLIFICATION,
    by="side",
)

QUARANTINE = DispatchQuestion(
    id="bookies_avoided",
    question="Do few bookies carry all, because brokers avoid the others?",
    short="bookies avoided?",
    rules=(
        says_yes(
            "avoided",
            "brokers have put bookies into quarantine, the busiest one is written clearly more than the mean, and writing is slow",
            Test("quarantines", ">", 0),
            Test("busiest_share", ">=", APART),
            _SLOW,
            _TAKE_MORE,
        ),
        says_no("none", "no bookie was put into quarantine", Test("quarantines", "=", 0)),
        says_no("even", "the bookies are written about evenly", Test("busiest_share", "<", APART)),
        _FAST,
        _FULL,
        stays_open(
            "not_told",
            "quarantines, what each bookie is written, or how long writes take, is not told",
            look="bookie_WRITE_BYTES of every bookie, BOOKIE_QUARANTINE and " + _CLIENT_STATS,
        ),
    ),
    yes=DispatchVerdict.BOOKIE_QUARANTINE,
    by="side",
)


def _keep_cached(tools: DispatchTools, it: Known) -> list[Action]:
    part = it.part
    return [
        Action(
            title="Find out why all consumers have connected anew: a deploy, crashes, or the autoscaler",
            command=tools.topic_stats(part.topic, part.partition),
            verify="you know it by connectedSince of the consumers and their logs",
        ),
        Action(
            title="Restart them one after the other, each after the one before has acknowledged again",
            verify="pulsar_storage_read_cache_misses_rate of the topic falls",
        ),
        Action(
            title="Let the cache keep what is not acknowledged (memory of the brokers): cacheEvictionByMarkDeletedPosition=true, and"
            " managedLedgerCacheEvictionTimeThresholdMillis above the time of a restart",
            verify="after the next restart of consumers there are hardly any misses",
        ),
    ]


def _fewer_writes(tools: DispatchTools, it: Known) -> list[Action]:
    return [
        Action(
            title="See how often positions are written now"
            + (f"; most by {_writers(it)}" if it.servers.ack_writers else ""),
            command=tools.show_persistence(it.part.topic),
            verify="you know managedLedgerMaxMarkDeleteRate of the namespace, or that the broker's default applies (1 a second)",
        ),
        Action(
            title="Write positions less often. After a crash of a broker, what was acknowledged since the last write is sent again:"
            " at 0.01 up to 100 s of it",
            command=tools.set_persistence(it.part.topic),
            verify="persistLedgerSucceed hardly grows, and writes to bookies take some milliseconds",
        ),
    ]


def _spread(tools: DispatchTools, _it: Known) -> list[Action]:
    return [
        Action(
            title="See which bookies are there and writable; quarantine ends by itself after 30 min"
            " (bookkeeperClientHealthCheckQuarantineTimeInSeconds)",
            command=tools.show_bookies(),
            verify="all bookies are there, and you know whether somebody restarts them one after the other",
        ),
        Action(
            title="If they are upgraded: pause that, switch the health check off for the rest of it (bkctl healthCheck switch: it"
            " releases all that are in quarantine), and on again afterwards (the same with -e)",
            verify="bookie_WRITE_BYTES grows evenly on all bookies",
        ),
    ]


def _writers(it: Known) -> str:
    return listed([f"{printable(name)} ({count(rate)}/s)" for name, rate in it.servers.ack_writers])


def _slow(it: Known) -> str:
    return f"a write takes {duration(it.write_seconds)}; {behind(it)}"


LEAVES = (
    DispatchLeaf(
        DispatchVerdict.REDELIVERY_CACHE_MISS,
        lambda it: (
            f"Sent again, and read from bookies again: {percent(it.resent_share)} of {count(it.sent_per_second)} messages/s were sent"
            f" before, and {count(it.servers.misses[it.place])} entries/s of the topic are not in the cache; {behind(it)}."
        ),
        _keep_cached,
    ),
    DispatchLeaf(
        DispatchVerdict.ACK_WRITE_AMPLIFICATION,
        lambda it: f"{percent(it.servers.ack_share)} of the writes to bookies are acknowledgements, and {_slow(it)}.",
        _fewer_writes,
    ),
    DispatchLeaf(
        DispatchVerdict.BOOKIE_QUARANTINE,
        lambda it: (
            f"Few bookies carry all: {counted(it.servers.quarantines, 'quarantine')} within half an hour,"
            f" {printable(it.servers.busiest or '')} is written {significant(it.servers.busiest_share or 0.0)} ×"
            f" the mean, and {_slow(it)}."
        ),
        _spread,
    ),
)
