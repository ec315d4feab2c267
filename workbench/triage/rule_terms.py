"""What the words of the rules mean, with the numbers behind them; `workbench tree` and docs/tree.md print them.

A fact that several rules test has its words here once. The numbers are those of the registry and the defaults of the settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench import numbers as n
from workbench.humanize import counted, duration, percent
from workbench.thresholds import Thresholds

_DEFAULT = Thresholds()


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase of the rules.

    Attributes:
        name: as `workbench tree NAME` takes it, and as people say it.
        means: in one or two sentences, with numbers.
        also: other words for it, in rules and screens.
    """

    name: str
    means: str
    also: tuple[str, ...] = ()


TERMS = (
    Term(
        "window",
        "The time that is judged: the last 15 min, or `--since` and `--until`. Its last third shows the trend.",
    ),
    Term(
        "baseline",
        f"The time before the window that it is compared with: 1 h, or `--baseline`. What arrives usually is known from"
        f" {duration(n.USUAL_SECONDS)} of it on.",
        ("before", "usual", "as before"),
    ),
    Term(
        "late",
        f"The oldest message that is not committed is older than the group's `time_lag_objective`"
        f" ({duration(_DEFAULT.time_lag_objective_seconds)} by default), plus the usual time between two of its commits.",
        ("is late",),
    ),
    Term(
        "behind",
        f"Late, or on the way to it (older than {percent(_DEFAULT.growth_floor_ratio)} of the objective), and not catching up.",
    ),
    Term(
        "healthy",
        "Nothing is late, grows or stands still (question 4), however many messages wait, and no side question is open.",
    ),
    Term(
        "recovered",
        "Healthy now, and late in the window, or for longer than the window up to a moment in it: the commits have caught up.",
    ),
    Term(
        "grows",
        f"The lag grows by more than {percent(_DEFAULT.growth_ratio)} of what arrives (`growth_ratio`), and does not come down"
        " between two commits.",
    ),
    Term(
        "catches up in time",
        "No partition that is behind stands still, the lag shrinks in the last third of the window, and each is done within"
        f" {duration(n.DRAIN_SECONDS)} or twice its present time lag, whichever is longer, and before retention deletes what waits.",
        ("draining", "catching up"),
    ),
    Term(
        "a few",
        f"1 to {percent(_DEFAULT.few_partitions_ratio)} of the topic's partitions, at least 1 (`few_partitions_ratio`).",
        ("few",),
    ),
    Term(
        "hold the lag",
        f"A few partitions are behind while others are not, each with {n.APART:g} × the typical lag or more. Or each has more than"
        f" {_DEFAULT.hot_factor:g} × min(mean, median) of all (`hot_factor`), more than"
        f" {counted(_DEFAULT.hot_floor_messages, 'message')}"
        f" (`hot_floor_messages`), and {percent(n.TENTH)} of the highest or more. What stands still is never counted.",
        ("hot",),
    ),
    Term(
        "stands still",
        "Its commit has not moved while messages waited as long, for the longest of: twice its usual time between two commits,"
        f" twice the longest turn of partitions that are read in turns, and the objective or {duration(n.PAUSE_SECONDS)}, whichever is"
        f" shorter; where a quota holds the group up, {duration(n.QUOTA_PAUSE_SECONDS)}. In JSON: frozen_partitions.",
        ("stand still", "stopped", "frozen", "standing"),
    ),
    Term(
        "stuck",
        "A few partitions stand still while at least one other advances. The verdict `stuck_partition` is also given where all stand"
        " still for none of the other reasons (question 19).",
    ),
    Term(
        "stale_seconds",
        f"Data are too old from max({n.APART:g} × `stale_after_seconds`, {n.STALE:g} × the time between two samples) on:"
        f" {duration(n.APART * _DEFAULT.stale_after_seconds)} by default.",
        ("too old",),
    ),
    Term(
        "skipped",
        f"In one step, commits passed messages of which the handlers counted less than {percent(n.PART)}. Where nobody counts them: at"
        f" {_DEFAULT.skip_pace_ratio:g} × the usual pace (`skip_pace_ratio`) or more, and {n.SKIP_RATE:,.0f} messages/s or more in all"
        " partitions.",
        ("that nobody read", "quick step"),
    ),
    Term(
        "doubtful",
        f"{n.COUNTED:g} messages or more were passed in one step, and the handlers counted {percent(n.PART)} to {percent(n.MOST)} of"
        f" them. Where nobody counts them: they had waited for more than {duration(n.DEPLOY_SECONDS)} and were passed {n.FAR:g} × as"
        f" fast as anything before or since; or they are the first records of a new partition.",
        ("so fast that",),
    ),
    Term(
        "pace",
        "Messages/s read lately where the group is behind, divided by what arrived there in the baseline, for each member that is left."
        f" At {1 - n.NOISE:g} × or more it is the usual pace, below {n.LESS:g} × it is less than before.",
        ("usual pace", "reads less", "reads as fast as before", "pace before"),
    ),
    Term(
        "hangs",
        f"A member that still reports has not polled for more than `poll_age_seconds` ({duration(_DEFAULT.poll_age_seconds)}) and"
        f" {n.APART:g} × its longest time between two polls before; or its client's statistics no longer change.",
        ("hung", "do not poll", "hang"),
    ),
    Term(
        "own work",
        f"The consumer itself is the limit: a queue is {percent(_DEFAULT.queue_fill_ratio)} full, entering one takes"
        f" {duration(_DEFAULT.enqueue_seconds)} and {_DEFAULT.enqueue_ratio:g} × the baseline, {n.NEVER_EMPTY:g} fetched"
        f" messages always wait, the polling thread waits for records at most {percent(n.IDLE)} of the time, or handlers take"
        f" {percent(n.BUSY)} of a thread.",
        ("handlers take the time", "queues are backed up", "queues of its own"),
    ),
    Term(
        "busy all the time",
        f"Handlers take {percent(n.BUSY)} of a thread or more, and {percent(n.LESS)} of what they handle is committed.",
        ("works all the time",),
    ),
    Term(
        "slow-down",
        "The time of one attempt of a processor (the handler of an event type), as a multiple of its own baseline. A processor whose"
        " queue is measured and not backed up delays nothing, and is not called slow; where more than half of them are slow, the"
        " question about all of them covers it.",
        ("slow against",),
    ),
    Term(
        "at its quota",
        f"Kafka's quotas are read (setting `bootstrap`), no client tells its throttle time, and the group lately read at most"
        f" {n.MORE:g} × what they allow, while {n.MORE:g} × as much arrives and it reads {percent(n.NEAR_QUOTA)} of it or more.",
        ("its quota allows",),
    ),
    Term(
        "no more than before",
        f"Within {percent(n.NOISE)} of the baseline: two samples of the same differ by as much.",
    ),
    Term(
        "again and again",
        f"{n.SEVERAL:g} times or more: twice may be chance.",
    ),
    Term(
        "has a member",
        "As the coordinator says (setting `bootstrap`), for a triage of now or a recording: who has which partition. Without it,"
        " partitions and topics without a member are not recognised.",
        ("no member has", "have the other partitions", "read other topics"),
    ),
    Term(
        "open transaction",
        "The commit stands at the last stable offset (or at most 2 below it), and the log goes on behind it: a transaction that neither"
        " commits nor aborts. Kafka is asked for it where commits stand (setting `bootstrap`). Cause `open_transaction` of"
        " `stuck_partition`.",
        ("open_transaction",),
    ),
    Term(
        "restores",
        "A Kafka Streams application reads its changelogs before it handles records: the lag of its restoring clients (a profile"
        " of Java clients). Cause `restoring` of `stuck_partition`: wait, do not restart.",
        ("restoring", "state stores"),
    ),
    Term(
        "batch",
        "A group with `batch` in its settings: a cron expression or an interval. It is judged by its runs.",
        ("a run", "no run", "was due"),
    ),
    Term(
        "cannot_tell",
        "The verdict if a question cannot be answered and nothing after it is proven. It names the question, the candidates that"
        " are left, and the look that would decide.",
        ("cannot tell",),
    ),
    Term(
        "proof",
        "A yes by evidence that only this cause makes. It is the verdict even if an earlier question cannot be answered: that one"
        " is listed as `not_ruled_out`.",
        ("proven",),
    ),
    Term(
        "by elimination",
        "No evidence of its own: the verdict of what is left once every question before it was answered no (`stuck_partition` where all"
        " stand still, `too_few_consumers`, `partition_ceiling`).",
        ("elimination", "ruled out"),
    ),
    Term(
        "side question",
        "If it cannot be answered, the walk goes on, and the finding says so (`also_seen`). But then nothing is called healthy,"
        " recovered or catching up: that is `cannot_tell`.",
        ("side",),
    ),
)  # fmt: skip
# Causes within a verdict, and the question that finds them.
CAUSES_WITHIN: Mapping[str, str] = {
    **dict.fromkeys(
        ("poison_record", "handlers_fail", "open_transaction", "restoring", "commit_fails", "paused", "client_stalled"),
        "stuck",
    ),
    **dict.fromkeys(("poll_stall", "member_crash", "deploy", "metadata_change"), "rebalancing"),
}

# Other words that people ask with, and what of the tree they mean.
ASKED: Mapping[str, str] = {
    "how old": "late", "objective": "late", "stale": "stale_seconds", "not tell": "cannot_tell", "throttle": "throttled",
    "throttling": "throttled", "quota": "throttled", "storm": "rebalance_storm", "rebalances": "rebalance_storm",
    "processor": "slow_processor", "network": "slow_network", "deleted": "lost", "retention": "lost", "silent": "producer_silent",
}  # fmt: skip


def named_in(text: str, names: Iterable[str]) -> str:
    """What a question in a person's words is about: the longest name or other word in it; else the text itself."""
    said = f" {' '.join(re.findall(r'[a-z]+', text.lower()))} "
    known = {**{it.replace("_", " ").lower(): it for it in names}, **ASKED}
    return known[max(found, key=len)] if (found := [it for it in known if f" {it} " in said]) else text


def term_of(name: str) -> Term | None:
    """The word of this name, or that is also called so."""
    wanted = name.replace("_", " ").lower()
    return next((it for it in TERMS if wanted in (it.name.replace("_", " "), *it.also)), None)


def terms_in(texts: Sequence[str]) -> list[Term]:
    """Words that these sentences use, in the order of the page."""
    said = " ".join(texts).lower()
    return [it for it in TERMS if any(word.lower() in said for word in (it.name, *it.also))]
