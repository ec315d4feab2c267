"""The group rebalances repeatedly, and reads little in between."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.humanize import count, counted, listed, percent, plural
from workbench.judgement_numbers import MISSED, MORE, MOST, PAUSE_SECONDS, SEVERAL
from workbench.signals import GROUP_STATES
from workbench.triage.action_subject import Subject
from workbench.triage.causes.throttled import raise_quota
from workbench.triage.facts.reasons_within_verdict import STORM_CAUSES
from workbench.triage.facts.unknown_numbers import Known, above, all_of, at_least, below, times
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, proves
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict

_MOST_FAIL = Operand("failing_share", "of the attempts", ">=", number=MOST)


def _rounds_are_long(row: Row) -> bool:
    half = at_least(row.rebalances, row.limits.rebalances / 2) is True
    return bool(row.paused_members) and at_least(row.rebalances_since, row.limits.rebalances) is True and half


def _records_end_owners(row: Row) -> bool:
    """Some frameworks close a client whose handler fails, and make a new one, of another name."""
    return row.fells_its_owners or all_of(row.stall_cause == "handlers_fail", _MOST_FAIL.holds(row)) is True


def _is_seldom(row: Row) -> Known:
    return below(row.rebalances, row.limits.rebalances)


def _crashes(row: Row) -> Known:
    return above(row.most_restarts, row.limits.deploy_restarts)


def _takes_more_work(row: Row) -> bool:
    """Rebalances take time from handlers: those of a storm have less to do than before, or do it again."""
    more = at_least(row.loop_busy, times(MORE, row.loop_busy_baseline)) is True
    return row.works_on and (row.rebalances is None or more)


def _nobody_comes_or_goes(row: Row) -> bool:
    moves = row.moving_partitions > 0 and not row.comes_and_goes and not row.handled_again
    return row.rebalances is None and row.members_stay is True and moves


def _words(row: Row) -> str:
    yes = row.answers.get("rebalancing") is Answer.YES
    number = rebalances_counted(row) if yes or row.rebalances is not None else _without_counter(row)
    return f"{number}; {waits}" if (waits := reconciling(row)) else number


def rebalances_counted(row: Row, noun: str | None = None) -> str:
    """How many of the most disturbed member in the window, and since the onset, if that are more; with a noun, if it is given."""
    if not row.rebalances and row.reasons.get("rebalancing") == "passing":
        return f"{plural(row.passing_rounds, 'time')} in the window new members started and were gone again"
    if row.reasons.get("rebalancing") == "crashing":
        return f"a member started anew {plural(row.most_restarts or 0, 'time')} in the window"
    if row.reasons.get("rebalancing") == "seen":
        return f"it was seen to leave its stable state {plural(round(row.rejoined or 0), 'time')} since it began"
    if not row.rebalances and row.emptied:
        return f"{plural(round(row.emptied), 'time')} in the window nobody was left in the group"
    if not row.rebalances and row.answers.get("rebalancing") is Answer.YES:
        return "its members wait for each other to join, now and most of the time"
    since = row.rebalances_since or 0.0
    longer = f", {count(since)} since it began" if since > (row.rebalances or 0.0) else ""
    many = count(row.rebalances) if noun is None else counted(row.rebalances, noun)
    return f"{many} in the window{longer}"


def _without_counter(row: Row) -> str:
    """What speaks against rebalances, where nobody counts them."""
    if row.answers.get("rebalancing") is not Answer.NO:
        return "no rebalance counter"
    but = {
        "stays": ", but no member has come or gone",
        "works_on": ", but its handlers work all the time, and what they do is committed",
    }
    return f"no rebalance counter{but.get(row.reasons.get('rebalancing', ''), '')}"


def reconciling(row: Row) -> str | None:
    """Partitions that have waited for their target member all the time; None if there are none, or it is not known."""
    if not row.reassigning_low:
        return None
    return f"reconciling all the time, at least {plural(round(row.reassigning_low), 'partition')} not with the target member"


QUESTION = Node(
    id="rebalancing",
    question="Does the group rebalance repeatedly?",
    short="rebalancing?",
    rules=(
        no(
            "one_record",
            "a few partitions stand still and the others keep up, or none advances and most attempts fail and are made again: records"
            " end each owner in turn; a storm holds up all, and lets handlers work",
            _records_end_owners,
        ),
        proves(
            "passing",
            "members that the baseline did not have start, and are gone again, one after another: a crash loop under new names",
            Operand("passing_rounds", "times", ">=", number=SEVERAL),
            Operand("baseline_members", "members", ">", number=0.0, why="without a baseline, every member is new"),
        ),
        proves(
            "emptied",
            "a group that usually has members has lost the last one again and again, and got members again",
            lambda row: row.loses_all_members,
            Operand("emptied", "times in the window", ">=", number=SEVERAL),
            Operand("usual_fewest_members", "members", ">", number=0.0, why="a job that starts and ends is no storm"),
        ),
        proves(
            "rejoining",
            "its members are rejoining, now and most of the time, and it is no rollout",
            lambda row: all_of(row.rejoining, not row.rollout),
        ),
        # Of members that poll too rarely, each round takes as long as the group allows: a window may have only one of several.
        proves(
            "long_rounds",
            "members miss polls, and one has rebalanced so often since the lag began, and half as often in the window",
            _rounds_are_long,
            Operand("rebalances_since", "since it began", ">=", setting="rebalances"),
        ),
        no(
            "rarely",
            "it hardly rebalances, no member starts anew again and again, and no partition has stopped while its members are replaced",
            lambda row: all_of(_is_seldom(row), _crashes(row) is not True, not (row.rollout and row.frozen_partitions)),
            Operand("rebalances", "in the window", "<", setting="rebalances"),
        ),
        no(
            "added",
            "members are added and stay: each that joins makes the others rebalance once, or twice if they keep what they can",
            Operand("added_members", "members", ">", number=0.0, why="who is not there explains no rebalance"),
            Operand(
                "rebalances",
                "in the window",
                "<=",
                number=2,
                of="added_members",
                why="cooperative members join in two rounds",
            ),
        ),
        no(
            "over",
            "its rebalances are over: it reads, and the time since the last one is longer than the time between them",
            lambda row: row.rebalances_over,
            Operand("rebalanced_ago", "s since the last one", ">", number=PAUSE_SECONDS),
            Operand(
                "rebalanced_ago",
                "s since the last one",
                ">",
                number=MISSED,
                of="rebalances_apart",
                why="a supervisor waits up to twice as long before each restart of a process that crashes",
            ),
        ),
        no(
            "works_on",
            f"its handlers are busy all the time and what they do is committed; where rebalances are counted: {MORE:g} × as busy as"
            " before, and not less, as rebalances make them",
            _takes_more_work,
        ),
        no(
            "stays",
            "nobody counts rebalances, but no member has come or gone and no commit has paused, as each rebalance makes them",
            _nobody_comes_or_goes,
        ),
        leaves_open(
            "rollout",
            "a rollout is under way, or has ended just now: members are replaced, none of them twice; or half of them and more, none"
            " more than twice, as by two rollouts, or one and its rollback; that ends, and a storm does not",
            lambda row: row.rollout and not (row.handlers_as_before and _is_seldom(row) is not True),
            look="wait until it is through; members that are replaced once more after that are in a storm",
        ),
        # A job (Flink) assigns partitions anew with each restart, and no coordinator counts it.
        proves(
            "crashing",
            "a member starts anew again and again, more often than by a deploy and its rollback, whatever rebalances are counted",
            lambda row: all_of(_crashes(row), _is_seldom(row) is not False),
            Operand("most_restarts", "times in the window", ">", setting="deploy_restarts"),
        ),
        proves(
            "seen",
            "nobody counts rebalances, and the group was seen to leave its stable state so often, for longer than a deploy takes, and"
            " does so still",
            lambda row: row.rebalances is None and at_least(row.rejoined, row.limits.rebalances),
            Operand("rejoined", "times", ">=", setting="rebalances"),
        ),
        leaves_open(
            "not_counted",
            "nobody counts rebalances, and nothing else rules them out",
            lambda row: row.rebalances is None,
            look="the members' logs: how often they rejoined since the onset",
        ),
        proves(
            "often",
            "one of its members has rebalanced so often in the window, and does so still",
            always,
            Operand("rebalances", "in the window", ">=", setting="rebalances"),
        ),
    ),
    yes=Conclude(Verdict.REBALANCE_STORM),
    words=_words,
    needs=("rebalances",),
    measures=(
        Measure("rebalances", "rebalances", "in the window", threshold="rebalances"),
        Measure("reassigning_partitions", "reassigning_low", "partitions still to move to another consumer, at least"),
    ),
    look="See twice, a minute apart, whether the same members have the same partitions",
    causes=STORM_CAUSES,
    contributes=True,
)

# For each cause: what happens, the action, and its kind.
_CAUSES = {
    "poll_stall": (
        "removed from the group for polling too rarely: {who}",
        "Polling too rarely: {who}. Replace the process, and find what blocks its thread; until then, lower max.poll.records "
        "or raise max.poll.interval.ms",
        "replace_members",
    ),
    "member_crash": (
        "crashing and restarting: {who}",
        "Crashing and restarting: {who}. Read the log, and replace the process",
        "replace_members",
    ),
    "deploy": (
        "a rollout restarts {who}",
        "A rollout restarts the group ({who}): let it finish, or stop it; later use static membership",
        "stop_deploy",
    ),
    "metadata_change": (
        "partitions are being added",
        "Partitions are being added one by one: add them in one step",
        "stop_changes",
    ),
}


def _who(row: Row) -> tuple[str, ...]:
    return row.paused_members if row.storm_cause == "poll_stall" else row.changed_members


def _who_did_what(row: Row) -> str:
    """Who came and who went, where that alone does not show why."""
    live = {it.member for it in row.members if it.live}
    new, again = set(row.new_members), set(row.restarted_members)
    done = {
        "joined": new & live,
        "came and went": new - live,
        "left": set(row.gone_members) - new,
        "started anew": again - new,
    }
    told = "; ".join(f"{listed(sorted(who))} {what}" for what, who in done.items() if who)
    return f"{told}, and why is not visible in the metrics" if told else "the cause is not visible in the metrics"


def _headline(row: Row) -> str:
    why, *_ = _CAUSES.get(row.storm_cause or "", (_who_did_what(row),))
    if row.storm_cause == "held_heartbeats":
        allowed, arriving = count(row.read_quota_per_second), count(row.arrival_per_second)
        why = f"its quota allows about {allowed} of the {arriving} messages/s that arrive, and heartbeats may wait behind held answers"
    why = why.replace("{who}", listed(sorted(_who(row))) or "all members")
    return f"Rebalance storm: {rebalances_counted(row, 'rebalance')}; {why}."


def _scope(row: Row) -> Scope:
    cause = row.storm_cause
    return Scope(cause=cause, members=_who(row) if cause not in ("metadata_change", "held_heartbeats") else ())


def _actions(it: Subject, row: Row) -> list[Action]:
    see = Action(
        title="Check which members join and leave", command=it.members, verify="you know which members, and why"
    )
    if row.storm_cause == "held_heartbeats":
        return [see, *raise_quota(it, row)]
    if row.storm_cause not in _CAUSES:
        return [see]
    _, title, kind = _CAUSES[row.storm_cause]
    who = sorted(_who(row))
    verify = f"no member has had {plural(round(row.limits.rebalances), 'rebalance')} or more in the window"
    check = Check("rebalances", "<", row.limits.rebalances)
    if row.reasons.get("rebalancing") == "crashing":
        verify = f"no member has started anew more than {plural(row.limits.deploy_restarts, 'time')} in the window"
        check = Check("most_restarts", "<=", row.limits.deploy_restarts)
    act = Action(
        title=title.format(who=listed(who) or ("all members" if row.loses_all_members else "one member")),
        verify=verify,
        kind=kind,
        parameters={"members": who},
        checks=(check,),
    )
    return [see, act]


def _share(row: Row, arriving: float) -> Iterator[tuple[str, float]]:
    if row.answers.get("rebalancing") is Answer.YES and row.group_state_mean is not None:
        stable, preparing = GROUP_STATES["stable"], GROUP_STATES["preparing_rebalance"]
        share = min(1.0, max(0.0, (stable - row.group_state_mean) / (stable - preparing)))
        yield f"in rebalances for about {percent(share)} of the time", arriving * share


LEAF = Leaf(
    verdict=Verdict.REBALANCE_STORM,
    headline=_headline,
    scope=_scope,
    actions=_actions,
    share=_share,
    names_members=True,
)
