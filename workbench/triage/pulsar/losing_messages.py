"""Is what nobody reads deleted: by its time to live, or by a backlog quota? And is anybody connected?"""

from __future__ import annotations

from workbench.humanize import counted, duration, size
from workbench.judgement_numbers import LESS
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
    stays_open,
)
from workbench.triage.shared_actions import WEEK_MS
from workbench.triage.verdict_names import DispatchVerdict

EXPIRING = DispatchQuestion(
    id="expiring",
    question="Are entries deleted that nobody has acknowledged?",
    short="expiring?",
    rules=(
        proof_of("expired", "messages expired between the looks", Test("expired_messages", ">", 0)),
        proof_of(
            "due",
            "the oldest entry has reached its time to live: the broker's next check deletes it",
            Test("ttl_seconds", ">", 0),
            Test("oldest_seconds", ">=", 1, "ttl_seconds"),
        ),
        proof_of(
            "goes_on",
            "messages have expired, and the next ones are near their time to live",
            Test("expired_ever", ">", 0),
            Test("ttl_seconds", ">", 0),
            Test("oldest_seconds", ">=", LESS, "ttl_seconds"),
        ),
        proof_of(
            "quota",
            "its backlog has reached a quota that deletes the oldest entries of the slowest subscription",
            Test("quota_bytes", ">", 0),
            Test("backlog_bytes", ">=", 1, "quota_bytes"),
        ),
        proof_of(
            "quota_of_age",
            "the oldest entry has reached a quota that deletes the oldest entries",
            Test("quota_seconds", ">", 0),
            Test("oldest_seconds", ">=", 1, "quota_seconds"),
        ),
        says_no(
            "none",
            "nothing expired, and nothing has reached the age or size at which it is deleted",
            Test("expired_messages", "=", 0),
            Test("ttl_share", "<", 1),
            Test("quota_share", "<", 1),
        ),
        says_no(
            "never",
            "nothing has expired since the topic was loaded, and no quota deletes entries now",
            Test("expired_ever", "=", 0),
            Test("quota_share", "<", 1),
        ),
        stays_open(
            "not_told",
            "whether entries expire, or a backlog quota deletes them, is not told",
            look="the topic's policies messageTTL and backlogQuotaMap, which the token must be allowed to read",
        ),
    ),
    yes=DispatchVerdict.EXPIRING,
    by="side",
    goes_on=True,
)

CONNECTED = DispatchQuestion(
    id="nobody_connected",
    question="Is nobody connected?",
    short="nobody connected?",
    rules=(
        proof_of("nobody", "no consumer is connected", Test("consumers", "=", 0)),
        says_no("somebody", "consumers are connected", Test("consumers", ">", 0)),
        stays_open(
            "not_told", "the broker does not tell its consumers", look="the consumers in the topic's statistics"
        ),
    ),
    yes=DispatchVerdict.DEAD_SUBSCRIPTION,
)


def _is_of_quota(it: Known) -> bool:
    return EXPIRING.deciding(it).id.startswith("quota")


def _expiring(it: Known) -> str:
    if _is_of_quota(it):
        return f"Entries are lost: the backlog quota deletes the oldest ones. {behind(it)}."
    lost = it.part.expired_ever
    told = (
        f"{counted(lost, 'message')} expired since the topic was loaded"
        if lost
        else "the next check deletes what is older"
    )
    return f"Messages are lost: they expire unread after {duration(it.part.ttl_seconds)}; {told}."


def _keep(tools: DispatchTools, it: Known) -> list[Action]:
    topic = it.part.topic
    if _is_of_quota(it):
        return [
            Action(
                title="Find who has set the backlog quota with consumer_backlog_eviction, and raise it above the backlog"
                f" ({size(it.part.backlog_bytes)})",
                command=tools.show_quota(topic),
                verify="the first position of internalStats no longer moves without acknowledgements",
            ),
            *_look_who(tools, it),
        ]
    return [
        Action(
            title="Keep what is unread: raise the time to live until the subscription has caught up",
            command=tools.set_ttl(topic, max(WEEK_MS // 1000, 2 * (it.part.ttl_seconds or 0))),
            verify="totalMsgExpired of the subscription no longer grows (the broker checks every 5 min by default)",
        ),
        *_look_who(tools, it),
    ]


def _look_who(tools: DispatchTools, it: Known) -> list[Action]:
    return [
        Action(
            title="Look who should read, and start it; what has expired comes back only by a reset of the subscription, and only"
            " while the topic's retention keeps it"
            + (f" ({it.part.retention_minutes} min)" if (it.part.retention_minutes or 0) > 0 else ""),
            command=tools.topic_stats(it.part.topic, it.part.partition),
            verify="consumers are connected, and lastAckedTimestamp advances",
        )
    ]


def _revive(tools: DispatchTools, it: Known) -> list[Action]:
    return [
        Action(
            title="Find out whose subscription it is, and whether it is still wanted",
            command=tools.topic_stats(it.part.topic, it.part.partition),
            verify="you know the owner; lastConsumedTimestamp says when it was read last (0: not since the topic was loaded)",
        ),
        Action(
            title="If it is wanted: start its consumers again; they go on at the first entry that is not acknowledged",
            verify="consumers are connected, and lastAckedTimestamp advances within 1 min",
            kind="restart_consumers",
        ),
        Action(
            title="If nobody wants it: delete it; its backlog is gone then, and the storage is freed",
            command=tools.drop_subscription(it.part.topic, it.part.subscription),
            verify="the subscription is no longer listed, and storageSize of the topic shrinks",
        ),
    ]


LEAVES = (
    DispatchLeaf(DispatchVerdict.EXPIRING, _expiring, _keep),
    DispatchLeaf(
        DispatchVerdict.DEAD_SUBSCRIPTION,
        lambda it: f"Nobody is connected: {behind(it)}; the topic keeps them until they are read or deleted.",
        _revive,
    ),
)
