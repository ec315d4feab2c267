"""A few partitions are stuck while others advance: usually a record that the handler cannot process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from workbench.features.subscription_measurements import PartitionFeatures
from workbench.humanize import count, counted, duration, listed, plural, shell_word
from workbench.triage.action_subject import Subject
from workbench.triage.facts.reasons_within_verdict import STALL_CAUSES
from workbench.triage.finding import Action, Scope
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, proves, yes
from workbench.triage.shared_actions import DUMPS
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def is_blocked(row: Row) -> bool:
    """Whether an open transaction holds it up: neither members, nor rebalances, nor queues explain what stands still then."""
    return row.stall_cause == "open_transaction"


def _waits_for_others(row: Row) -> bool:
    """A few stand still, for not so long that they must be stuck, while their consumer works all the time and commits what it does.

    They may wait until it has read the others.
    """
    return (
        row.never_rests
        and row.moving_partitions > 0
        and not row.stuck_partitions
        and 1 <= row.frozen_count <= row.few_partitions
    )


def _words(row: Row) -> str:
    if row.stall_cause == "open_transaction":
        return f"{_frozen_words(row)}, where a transaction is open; {row.moving_partitions} advancing"
    if row.unowned_partitions:
        return f"{plural(len(row.unowned_partitions), 'partition')} ({listed(row.unowned_partitions)}) without a member"
    if row.stall_cause == "restoring":
        return f"{_frozen_words(row)}; {_restoring(row)}"
    if row.stuck_count and not row.moving_partitions:
        return f"{_frozen_words(row)}, and none advances" if row.frozen_count else "no partition advances"
    if row.stuck_count:
        stuck = listed(row.stuck_partitions)
        more = f"; more than a few ({row.few_partitions})" if row.stuck_count > row.few_partitions else ""
        return f"{plural(row.stuck_count, 'partition')} ({stuck}) stuck, {row.moving_partitions} advancing{more}"
    return _each(row)


def _each(row: Row) -> str:
    """What every partition does: those that advance, and the others."""
    still = row.frozen_partitions
    rested = [it for it in row.partitions if not (it.committed_moved or 0) > 0 and it.partition not in still]
    at_end = sum(1 for it in rested if it.lag_messages == 0)
    unknown = sum(1 for it in rested if it.lag_messages != 0 and it.committed_moved is None)
    rest = row.partition_count - row.moving_partitions - len(still) - at_end - unknown
    words = [f"{row.moving_partitions} of {plural(row.partition_count, 'partition advances', 'partitions advance')}"]
    if still:
        stand = "stands" if len(still) == 1 else "stand"
        words.append(f"{len(still)} ({listed(still)}) {stand} still, which the next questions may explain")
    if at_end:
        words.append(f"{at_end} {'has' if at_end == 1 else 'have'} nothing left to read")
    if rest > 0:
        words.append(f"{rest} {'was' if rest == 1 else 'were'} not seen to move")
    if unknown:
        words.append(f"the commits of {unknown} are not measured")
    return "; ".join(words)


def _frozen_words(row: Row) -> str:
    still = [it.partition for it in row.still]
    if not still and row.all_may_have_stopped:
        return (
            f"{plural(len(row.standing_partitions), 'partition')} ({listed(row.standing_partitions)}) may have stopped"
        )
    if not still:
        return "no partition with lag is seen to stand still"
    ages = [it.moved_ago_seconds for it in row.still if it.moved_ago_seconds is not None]
    between = dict.fromkeys((duration(min(ages)), duration(max(ages)))) if ages else {}
    since = f", for {' to '.join(between)}" if between else ""
    return (
        f"{plural(len(still), 'partition')} ({listed(still)}) {'stands' if len(still) == 1 else 'stand'} still{since}"
    )


def _are_stuck(row: Row) -> bool:
    return (
        row.stuck_count > 0
        and (row.held_by_tries or row.stuck_count <= row.few_partitions)
        and row.moving_partitions > 0
        and not row.gives_up
    )


def _nobody_begins_anew(row: Row) -> bool:
    return (row.rebalances is not None and not row.restarted_members) or row.members_stay is True


STUCK = Node(
    id="stuck",
    question="Are some partitions stuck while others advance?",
    short="partitions stuck?",
    rules=(
        proves("unowned", "no member has the partitions that wait", lambda row: row.unowned_partitions),
        proves("blocked", "an open transaction holds up everything behind it", is_blocked),
        proves(
            "commit_fails",
            "records are handled, and no commit of any partition arrives",
            lambda row: row.stall_cause == "commit_fails" and not row.moving_partitions,
        ),
        proves(
            "handlers_fail",
            "records are tried again and again, and no commit of any partition moves",
            lambda row: row.stall_cause == "handlers_fail",
        ),
        proves(
            "restoring",
            "nothing is handled while Kafka Streams restores its state stores",
            lambda row: row.stall_cause == "restoring",
        ),
        proves(
            "stuck",
            "a few partitions stand still, or no more than one member has and records are tried again, while others advance, and"
            " nothing in the consumer explains it",
            lambda row: (
                _are_stuck(row) and (row.others_keep_up or _nobody_begins_anew(row)) and not row.one_begins_anew
            ),
        ),
        leaves_open(
            "owner_disturbed",
            "a few partitions stand still, and others fall behind, too, or one member alone begins anew: what it should own may wait"
            " for it, or a record there ends it; or nobody counts who begins anew",
            _are_stuck,
            look="the members' logs: whether one of them crashes or rejoins again and again",
        ),
        leaves_open(
            "no_commits",
            "the commits of partitions with lag are hardly measured",
            lambda row: row.silent_partitions > 0 and row.moving_partitions == 0,
            look="look again when there are three samples",
        ),
        no(
            "advance",
            "for none of the reasons above: partitions advance, or more than a few of them stand still, or all",
            always,
        ),
    ),
    yes=Conclude(Verdict.STUCK_PARTITION),
    words=_words,
    needs=("committed_offset",),
    measures=(
        Measure("committed_offset", "stuck_count", "partitions that do not move"),
        Measure("committed_offset", "moving_partitions", "partitions that move"),
        Measure("oldest_incomplete_age", "oldest_incomplete_seconds", "s"),
    ),
    look=f"See what the owner of the partitions that stand still does ({DUMPS})",
    causes=STALL_CAUSES,
    contributes=True,
)

FROZEN = Node(
    id="frozen",
    by="elimination",
    question="Does any partition stand still, for none of these reasons?",
    short="partition stopped?",
    rules=(
        leaves_open(
            "waits_for_others",
            "what stands still may wait until its consumer, which works all the time, has read the others",
            _waits_for_others,
            look="look again in some minutes: whether it has moved",
        ),
        no(
            "given_up",
            "far more attempts fail than before, and commits pass most of what fails: what stands still may wait for its owner, whose"
            " time that takes",
            lambda row: row.stalled and row.gives_up,
        ),
        yes("stalled", "partitions stand still for none of the reasons above", lambda row: row.stalled),
        leaves_open(
            "standing",
            "all that are behind may have stopped: too lately to be sure, or nobody measures them any more",
            lambda row: row.all_may_have_stopped,
            look="look again in a minute",
        ),
        no("none", "nothing that is behind is seen to stand still", always),
    ),
    yes=Conclude(Verdict.STUCK_PARTITION),
    words=_frozen_words,
    needs=("committed_offset",),
    measures=(Measure("committed_offset", "frozen_count", "partitions whose commits have stopped"),),
)


def _still(row: Row) -> list[int]:
    """Partitions that do not advance: for the whole window, or else for longer than usual."""
    return sorted(row.unowned_partitions or row.stuck_partitions or row.frozen_partitions)


def _first(row: Row) -> PartitionFeatures:
    return next(it for it in row.partitions if it.partition in _still(row))


def _offset(row: Row) -> int | None:
    """Committed offset; None if no recent sample reports it."""
    committed = _first(row).committed
    return None if committed is None else round(committed)


_WHY = {
    "poison_record": "a record that the handler cannot process holds the commit",
    "handlers_fail": "its handlers fail and try again, in every partition: what they depend on may be out",
    "commit_fails": "records are read, but the commits do not arrive",
    "open_transaction": "a transaction is open there, and what comes after it is not given to consumers with read_committed",
    "paused": "consumption is paused",
    "client_stalled": "the members poll, and get no records",
}


def _restoring(row: Row) -> str:
    left, pace = row.restoring_messages or 0.0, row.restoring_per_second
    eta = f", about {duration(left / -pace)} at {count(-pace)}/s" if pace is not None and pace < 0 else ""
    return f"{counted(left, 'record is', 'records are')} left to restore{eta}"


def _headline(row: Row) -> str:
    offset = _offset(row)
    where = f"partition {_first(row).partition}" + (f" at offset {offset:,}" if offset is not None else "")
    if len(_still(row)) > 1:
        where = f"partitions {listed(_still(row))}"
    if row.unowned_partitions:
        return f"Not assigned: no member has {where}."
    if row.stall_cause == "restoring":
        return f"Restoring: nothing is read before Kafka Streams has its state stores again; {_restoring(row)}."
    why = f": {_WHY[row.stall_cause]}" if row.stall_cause else ""
    if row.held_by_tries and row.stall_cause == "poison_record":
        why = ": attempts fail and are made again, which may hold up all that one member owns"
    moving = row.moving_partitions
    if not moving:
        but = "" if why else ", although the group has members"
        return f"Stuck: {where} not advancing, and no other partition is{but}{why}."
    return f"Stuck: {where} not advancing, while {plural(moving, 'other')} {'is' if moving == 1 else 'are'}{why}."


def _actions(it: Subject, row: Row) -> list[Action]:
    number, offset, still = _first(row).partition, _offset(row), _still(row)
    if row.unowned_partitions:
        see = Action(
            title="See which members the group has, and what each of them has: a member with none, or members with other subscriptions"
            " or assignors than the rest",
            command=it.members,
            verify=f"you know why nobody has {listed(still)}",
        )
        restart = Action(
            title="Restart the members one at a time, so that the group assigns its partitions anew. New partitions are seen without it"
            " by clients that look for them (Java: every metadata.max.age.ms, 5 minutes)",
            verify=f"a member has {listed(still)}",
            kind="restart_consumers",
            parameters={"members": [], "partitions": still},
        )
        return [see, restart]
    if offset is None:
        ask = f"Ask Kafka for the committed offset of partition {number}; the metrics have no recent one"
        return [Action(title=ask, command=it.describe, verify="you know the offset, and the record there")]
    moves = Check("partitions", ">", offset, field="committed", items=(str(number),))
    passes = f"the committed offset of partition {number} passes {offset:,}"

    def act(title: str, command: str | None = None, **more: Any) -> Action:
        """What has worked once the commit moves."""
        return Action(title=title, command=command, verify=passes, checks=(moves,), **more)

    read = Action(
        title=f"Read the record at offset {offset:,} of partition {number}, where it stands",
        command=it.tools.read_record(it.topic, number, offset),
        verify="you know whether the handler can process it",
    )
    match row.stall_cause:
        case "restoring":
            wait = act("Wait: a restart would begin the restoring anew")
            return [replace(wait, verify=f"nothing is left to restore, and {passes}")]
        case "poison_record":
            letter = (
                "Send it to the dead-letter topic (lower max_attempts, or return Dead from the handler; Spring: an error handler with "
                "a DeadLetterPublishingRecoverer and a back-off that ends)"
            )
            return [
                read,
                act(letter, kind="dead_letter", parameters={"partition": number, "offset": offset, "max_attempts": 3}),
            ]
        case "handlers_fail":
            log = (
                "Read the errors in the members' log, and see whether what the handlers depend on is out; skip nothing"
            )
            return [act(log, it.members), read]
        case "open_transaction":
            return _end_transaction(it, row, act)
        case "commit_fails":
            log = (
                "Read the members' log for refused commits: rights on the group, a fenced member, a commit that times out, "
                "a checkpoint that fails (Flink commits with it), records that were given up and nobody acknowledges (Spring's "
                "MANUAL: setCommitRecovered); "
                "what was processed since then is processed again after a restart"
            )
            return [act(log, it.members)]
        case "paused":
            who = "Find who paused the partitions (a switch, a circuit breaker, a rate limit), and resume them"
            return [act(who, it.members, kind="resume_partitions", parameters={"partitions": still})]
        case "client_stalled":
            dump = Action(
                title=f"Take a thread dump of the members that own {listed(still)} ({DUMPS}): "
                "their client polls, and fetches nothing",
                command=it.members,
                verify="you know what the client waits for",
            )
            then = "Then restart these members, one at a time"
            restart = act(then, kind="restart_consumers", parameters={"members": [], "partitions": still})
            return [*_rule_out_transactions(it, row), dump, restart]
    look = "Look at the owners' logs for what these partitions share: paused consumption, refused commits, a call that hangs"
    first = [] if len(still) > row.few_partitions else [read]
    return [*first, *_rule_out_transactions(it, row), act(look, it.members)]


def _rule_out_transactions(it: Subject, row: Row) -> list[Action]:
    """Nothing may be there to read: then a restart would change nothing."""
    if any(part.last_stable is not None for part in row.partitions if part.partition in _still(row)):
        return []
    return [
        Action(
            title="Rule out an open transaction: nobody has asked Kafka for the last stable offset (setting: bootstrap)",
            command=it.tools.list_writers(it.topic, _first(row).partition),
            verify="no producer has a CurrentTransactionStartOffset",
        )
    ]


def _end_transaction(it: Subject, row: Row, act: Callable[..., Action]) -> list[Action]:
    starts = {
        part.partition: round(part.last_stable)
        for part in row.partitions
        if part.partition in _still(row) and part.last_stable is not None and part.last_stable < (part.log_end or 0.0)
    }
    first, start = next(iter(sorted(starts.items())))
    one = f"--topic {shell_word(it.topic)} --partition {first} --start-offset {start}"
    find = Action(
        title=f"Find the producer whose CurrentTransactionStartOffset in partition {first} is {start:,}",
        command=it.tools.list_writers(it.topic, first),
        verify="you know its ProducerId, and how long ago it wrote (LastTimestamp)",
    )
    end = (
        "Find its transactional id, and whose it is. If it lives, let it commit or abort. "
        "If it has died, start it again with this id: it then aborts its own transaction"
    )
    abort = (
        "Nobody can end it? Abort it in each partition: its records are never given to consumers with read_committed"
    )
    each = {str(partition): offset for partition, offset in starts.items()}
    return [
        find,
        act(end, it.tools.list_transactions()),
        act(abort, it.tools.abort_transaction(one), kind="abort_transaction", parameters={"starts": each}),
    ]


def _share(row: Row, _arriving: float) -> Iterator[tuple[str, float]]:
    if 0 < len(row.unread) < len(row.partitions):
        words = f"{plural(len(row.unread), 'partition')} ({listed([it.partition for it in row.unread])}) not read"
        yield words, sum(it.arrival_per_second or 0.0 for it in row.unread)


LEAF = Leaf(
    verdict=Verdict.STUCK_PARTITION,
    headline=_headline,
    scope=lambda row: Scope(partitions=tuple(_still(row)), offset=_offset(row), cause=row.stall_cause),
    actions=_actions,
    share=_share,
)
