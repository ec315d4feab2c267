"""The group reads records that are in remote storage alone: each fetch goes there, and more consumers only fetch more of it."""

from __future__ import annotations

from workbench.humanize import counted, shell_word, size
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, proves, yes
from workbench.triage.shared_actions import SHRINKS
from workbench.triage.status import lagging
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict

_COLD = Operand("cold_messages", "messages", ">", number=0.0, why="before the beginning of the brokers' own disks")
_READS_REMOTE = Operand(
    "remote_bytes_per_second", "bytes/s", ">", number=0.0, why="no group on the tail makes a broker do that"
)


def _words(row: Row) -> str:
    if row.cold_messages is None:
        return "nobody tells where the brokers' own disks begin"
    remote = row.remote_bytes_per_second
    told = f"; brokers read {size(remote)}/s of the topic from there" if remote is not None else ""
    return f"{counted(row.cold_messages, 'message')} in remote storage{told}"


QUESTION = Node(
    id="cold_read",
    question="Is what it reads in remote storage alone?",
    short="cold read?",
    rules=(
        no(
            "local",
            "what it reads next is on the brokers' own disks",
            Operand("cold_messages", "messages", "=", number=0.0, why="before the beginning of the brokers' own disks"),
        ),
        leaves_open(
            "start_unknown",
            "brokers read its topic from remote storage, and where their own disks begin is not known of each partition",
            lambda row: row.cold_messages is None and _READS_REMOTE.holds(row),
            look="the earliest local offset of its partitions (needs `bootstrap`, and Kafka 3.6)",
        ),
        no(
            "not_told",
            "no source tells of records in remote storage",
            lambda row: row.cold_messages is None,
        ),
        no("own_work", "its own work is the limit, wherever the records are", lambda row: row.own_work),
        no(
            "nobody_reads",
            "what it reads next is in remote storage, and brokers read nothing of its topic from there",
            lambda row: row.remote_bytes_per_second == 0,
        ),
        proves(
            "remote",
            "what it reads next is in remote storage alone, and brokers read its topic from there",
            _COLD,
            _READS_REMOTE,
        ),
        yes(
            "cold",
            "what it reads next is in remote storage alone; what brokers read from there is not measured",
            always,
            _COLD,
        ),
    ),
    yes=Conclude(Verdict.COLD_READ),
    words=_words,
    needs=("local_start_offset",),
    measures=(
        Measure("local_start_offset", "cold_messages", "messages"),
        Measure("remote_reads", "remote_bytes_per_second", "bytes/s", baseline="remote_bytes_before"),
    ),
    contributes=True,
)


def _headline(row: Row) -> str:
    return (
        f"Cold read: {counted(row.cold_messages, 'message')} of what it has not read are in remote storage, no longer on the"
        f" brokers' own disks; {lagging.back_on_disks(row)}. More consumers would not help."
    )


def _actions(it: Subject, row: Row) -> list[Action]:
    warm = Check("cold_messages", "=", 0.0)
    second = "let it begin at the end of the log, and read what is between with a second group, at a cap"
    if row.tail_seconds is not None:
        first = Action(
            title=f"Wait: {lagging.back_on_disks(row)}. Do not add consumers: each reads from remote storage, too",
            command=it.describe,
            verify="what it has not read is on the brokers' own disks again",
            checks=(warm,),
        )
    else:
        first = Action(
            title="See why reads from remote storage are so slow: the store's limits, the brokers' remote readers, a quota"
            " (remote.log.manager.fetch.max.bytes.per.second). Do not add consumers: each reads from there, too",
            command=it.describe,
            verify="its lag shrinks",
            checks=(SHRINKS,),
        )
    return [
        first,
        Action(
            title="See whether it slows others down; if so, set the cap that this prints",
            command=f"workbench impact --cluster {shell_word(it.cluster)}",
            verify="nobody is held up",
        ),
        Action(
            title=f"If new records cannot wait: {second}",
            command="workbench replay plan --help",
            verify="the group is on the tail, and a plan covers the range between",
        ),
    ]


LEAF = Leaf(
    verdict=Verdict.COLD_READ,
    headline=_headline,
    scope=lambda row: Scope(partitions=row.cold_partitions),
    actions=_actions,
)
