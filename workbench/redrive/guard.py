"""Safety checks before records are produced. Pure: compares the cluster's current state with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from workbench.errors import EvidenceError, GuardError
from workbench.humanize import duration, plural
from workbench.plans.refusal import COMMON_HINTS, Refusal
from workbench.queues.replay_port import ClusterView, LogView, Quotas, TopicSettings
from workbench.redrive.commit_marks import Place, PlanState
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.plan import margin_seconds, seconds_of
from workbench.redrive.planfile import RedrivePlan

# Kafka forgets the position of a group without members after this time, if the broker does not say another.
UNKNOWN_RETENTION_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveLimits:
    """Limits that the operator sets; see `workbench.replay.guard.Limits`."""

    retention_margin_seconds: float = 600.0
    allow_under_replicated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveNow:
    """Current state of the cluster.

    Attributes:
        positions, ordered, state, refused: what Kafka says about the plan; see `Progress`.
        handled: letters that other plans have handled.
        position_kept_seconds: how long the position of a plan that nobody applies is kept; None: not told.
        lacking: permissions that the broker says are lacking, in words.
        untold: what cannot be told of permissions, in words.
        quotas: of this user; None if they cannot be told.
        audience: who gets the records again, in words.
    """

    cluster: ClusterView
    logs: LogView
    settings: Mapping[str, TopicSettings]
    positions: Mapping[int, int]
    handled: Mapping[int, Picks]
    now_ms: float
    position_kept_seconds: float | None = None
    was_started: bool = False
    ordered: int | None = None
    state: PlanState | None = None
    refused: Mapping[Place, str] = field(default_factory=dict)
    audience: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    untold: str | None = None
    quotas: Quotas | None = None


def check_redrive(plan: RedrivePlan, now: RedriveNow, limits: RedriveLimits) -> list[Refusal]:
    """All reasons not to produce."""
    if (other := of_other_log(plan, now.cluster)) is not None and other.code == "other_cluster":
        return [other]
    if now.state in (PlanState.DISCARDED, PlanState.GIVEN_UP):
        return [Refusal(code=now.state.value, message=f"{ended_words(plan, now.state)}.")]
    found = _topics(plan, now.cluster)
    # Brokers show neither logs nor commits of a topic that they hide: a position would look expired.
    if plan.topic not in now.cluster.denied:
        found += [*_position(plan, now), *_letters(plan, now, limits)]
    found += [Refusal(code="not_allowed", message=words) for words in now.lacking]
    short = now.cluster.under_replicated
    if short and not limits.allow_under_replicated:
        text = f"{plural(len(short), 'partition')} of the cluster lack a replica; a redrive would slow down their recovery."
        found.append(Refusal(code="under_replicated", message=text))
    twice = sum(part.parsed.overlap(now.handled.get(part.partition, Picks((), ()))) for part in plan.partitions)
    twice += sum(offset in now.handled.get(number, Picks((), ())) for number, offset in plan.ordered)
    if twice and not plan.again:
        text = f"{plural(twice, 'letter')} of the plan were redriven, discarded or claimed by another plan since."
        found.append(Refusal(code="handled", message=text))
    return found


def check_claims(plan: RedrivePlan, now: RedriveNow) -> None:
    """No other plan may have claimed letters of the plan since the checks.

    Raises:
        GuardError: if one has.
    """
    found = [it for it in check_redrive(plan, now, RedriveLimits()) if it.code == "handled"]
    if found:
        raise GuardError(found[0].message, hint=HINTS["handled"])


def of_other_log(plan: RedrivePlan, view: ClusterView) -> Refusal | None:
    """Why the offsets of the plan are none of the dead-letter topic that is there; None if they are.

    Args:
        view: with the dead-letter topic.
    """
    if view.cluster_id != plan.cluster_id:
        text = f"The plan is for the cluster {plan.cluster_id}, this one is {view.cluster_id}."
        return Refusal(code="other_cluster", message=text)
    return _topic(plan.topic, plan.topic_id, view)


def check_topics(plan: RedrivePlan, view: ClusterView, *, with_letters: bool) -> None:
    """Check that no target of the plan was deleted, nor (`with_letters`) its dead-letter topic; one that is hidden is another matter.

    Raises:
        EvidenceError: if one was, recreated or not: no further try helps.
    """
    wanted = [
        *([(plan.topic, plan.topic_id)] if with_letters else []),
        *((it.topic, it.topic_id) for it in plan.targets),
    ]
    for name, topic_id in wanted:
        if name not in view.denied and (other := _topic(name, topic_id, view)) is not None:
            raise EvidenceError(
                f"{other.message} What the plan produced into it before is gone with it."
                if name != plan.topic
                else other.message,
                hint="See: workbench dlq follow PLAN --once. Give the plan up (dlq give-up) unless it is done, and make a new one; "
                "with --again, it also takes the letters that were redriven into the topic that is gone.",
            )


def ended_words(plan: RedrivePlan, outcome: str) -> str:
    """How a plan ended without all of its records."""
    what = "discarded: its letters are not produced" if outcome == "discarded" else "given up: it produces nothing more"
    return f"The plan {plan.short_hash} was {what}"


def _topics(plan: RedrivePlan, view: ClusterView) -> list[Refusal]:
    found = []
    wanted = [(plan.topic, plan.topic_id, 0), *((it.topic, it.topic_id, len(it.ends)) for it in plan.targets)]
    for name, topic_id, partitions in wanted:
        if (other := _topic(name, topic_id, view)) is not None:
            found.append(other)
            continue
        topic = view.topics[name]
        if partitions and len(topic.leaders) != partitions:
            text = f"{name!r} had {plural(partitions, 'partition')} when the plan was made, now it has {len(topic.leaders)}."
            found.append(Refusal(code="partitions_changed", message=text))
        elif any(leader < 0 for leader in topic.leaders.values()):
            found.append(Refusal(code="silent", message=f"A partition of {name!r} has no leader."))
    return found


def _topic(name: str, topic_id: str | None, view: ClusterView) -> Refusal | None:
    """Why it is not the topic that it was."""
    topic = view.topics.get(name)
    if topic is None and name in view.denied:
        return Refusal(
            code="not_allowed", message=f"These credentials may not describe the topic {name!r}: {view.denied[name]}."
        )
    if topic is None:
        return Refusal(code="topic_gone", message=f"The topic {name!r} does not exist any more.")
    if topic.is_remade(topic_id):
        text = f"The topic {name!r} was deleted and recreated since the plan was made."
        return Refusal(code="log_changed", message=text)
    return None


def _position(plan: RedrivePlan, now: RedriveNow) -> list[Refusal]:
    """A position that has expired must not look like a plan that has not begun: its records would be produced again."""
    missing = [part.partition for part in plan.partitions if part.partition not in now.positions]
    if not missing:
        return []
    if now.was_started or len(missing) < len(plan.partitions):
        text = f"The plan was begun, and its position in Kafka has expired for {plural(len(missing), 'partition')}."
        return [Refusal(code="position_expired", message=text)]
    kept = now.position_kept_seconds or UNKNOWN_RETENTION_SECONDS
    age = now.now_ms / 1000 - datetime.fromisoformat(plan.created_at).timestamp()
    if age > kept:
        text = (
            f"The plan is {duration(age)} old, and its position is kept for {duration(kept)}: it cannot be told whether the plan "
            "was applied from elsewhere."
        )
        return [Refusal(code="too_old", message=text)]
    return []


def _letters(plan: RedrivePlan, now: RedriveNow, limits: RedriveLimits) -> list[Refusal]:
    found = []
    for part in plan.partitions:
        key = (plan.topic, part.partition)
        start, end, at = (
            now.logs.starts.get(key),
            now.logs.ends.get(key),
            now.positions.get(part.partition, part.log_start),
        )
        if start is None or end is None:
            text = f"It does not answer: {now.logs.errors.get(key, 'no reason given')}."
            found.append(Refusal(code="silent", message=text, partition=key))
            continue
        if end < part.stop:
            text = (
                f"The log ends at {end:,}, before the end of the plan ({part.stop:,}): it was truncated or recreated."
            )
            found.append(Refusal(code="log_changed", message=text, partition=key))
        gone = part.parsed.below(start) - part.parsed.below(min(at, start))
        gone += sum(it[0] == part.partition and it[1] < start for it in plan.ordered[now.ordered or 0 :])
        if gone:
            text = f"Retention has deleted {plural(gone, 'letter')} of the plan; the log now begins at {start:,}."
            found.append(Refusal(code="letters_deleted", message=text, partition=key))
    left = margin_seconds(plan, now.settings.get(plan.topic, TopicSettings()), now_ms=now.now_ms)
    needed = (seconds_of(plan) or 0.0) + limits.retention_margin_seconds
    if limits.retention_margin_seconds and left is not None and left < needed:
        due = "at any moment" if left <= 0 else f"in {duration(left)}"
        text = f"Retention may delete the oldest letter {due}; the redrive and its margin take {duration(needed)}."
        found.append(Refusal(code="retention_margin", message=text))
    return found


HINTS = {
    **COMMON_HINTS,
    "not_allowed": "Grant these credentials READ on the dead-letter topic and on the groups workbench-redrive-*, WRITE on the targets "
    "and on those transactional ids, or use others in workbench.toml.",
    "partitions_changed": "Make a new plan.",
    "position_expired": "See what it has produced with: workbench dlq verify PLAN. Then plan the rest by --offset.",
    "discarded": "Letters that shall be produced all the same: plan them with --again.",
    "given_up": "Make a new plan of the letters that are left.",
    "too_old": "Make a new plan.",
    "letters_deleted": "Make a new plan with the letters that are left.",
    "handled": "Make a new plan: it leaves them out. A plan that was begun keeps its letters until it is done or given up.",
    "retention_margin": "Raise retention.ms of the topic first, or --retention-margin 0s.",
}
