"""What the words of the rules mean, with the numbers behind them; `workbench tree` and docs/tree.md print them.

A fact that several rules test has its words here once. The numbers are those of the registry and the defaults of the settings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workbench import judgement_numbers as n
from workbench.humanize import counted, duration, percent
from workbench.thresholds import Thresholds

_DEFAULT = Thresholds()
ORIGINS = (
    "Measured: on real consumers and brokers. Kafka: a fact of Kafka or its clients. Chosen: for the reason that is told, and held"
    " against recorded and made incidents; so are the defaults of settings, unless their reason says where they are from."
)
WHY_THIS_ORDER = (
    "First comes what no cause can be told without (data), what is worse than any lag (lost records), and whether it lags; then whether"
    " anybody reads; then the consumer's own work: who is busy is not held up from outside; then what comes from outside; last what is"
    " left by elimination: too little capacity."
)


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
        f" ({duration(_DEFAULT.time_lag_objective_seconds)} by default), plus the usual time between two of its commits. What stands"
        " still is late, too.",
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
        f"The lag grows by more than {percent(_DEFAULT.growth_ratio)} of what arrives (`growth_ratio`), does not come down between two"
        f" commits, a message waits for longer than {percent(_DEFAULT.growth_floor_ratio)} of the objective (`growth_floor_ratio`)"
        f" plus the usual time between two commits, and its age is not known to grow by less than"
        f" {_DEFAULT.growth_ratio / 2:.1%} of the time.",
    ),
    Term(
        "catches up in time",
        "No partition that is behind stands still, or may have stopped a moment ago (question 19); the lag shrinks in the last third of"
        f" the window, and each is done within {duration(n.DRAIN_SECONDS)} or twice the group's present time lag, whichever is longer,"
        " and before retention deletes what waits. The verdict is `producer_burst`, also where a standstill left what is caught up.",
        ("draining", "catching up"),
    ),
    Term(
        "a few",
        f"1 to {percent(_DEFAULT.few_partitions_ratio)} of the topic's partitions, at least 1 (`few_partitions_ratio`).",
        ("few",),
    ),
    Term(
        "hold the lag",
        f"A few partitions are behind while others are not, each with {n.APART:g} × the typical lag or more. Where"
        " not just a few are behind: each has more than"
        f" {_DEFAULT.hot_factor:g} × min(mean, median) of all (`hot_factor`), more than"
        f" {counted(_DEFAULT.hot_floor_messages, 'message')}"
        f" (`hot_floor_messages`), and {percent(n.TENTH)} of the highest or more. What stands still is not counted.",
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
        f"Slow: commits move. Stands still: none has moved for {duration(n.PAUSE_SECONDS)} by default, longer where they are rare (see"
        f" there). Stuck: none for {duration(n.FREEZES * n.PAUSE_SECONDS)} by default ({n.FREEZES:g} times the shorter of the objective"
        f" and {duration(n.PAUSE_SECONDS)}), and messages have waited as long, in a few partitions while another one advances, and"
        " nothing in the consumer explains it. Where it is known that its threads wait for records: for the objective"
        f" plus its usual time between two commits. What was never seen to move: in {n.FEW_SAMPLES:g} samples, unless it is known to"
        " have waited for less than half of the objective plus 2 × `commit_every`. `stuck_partition` is also the verdict where a"
        " partition stands still for none of the other reasons (question 19): as soon as it does.",
    ),
    Term(
        "stale_seconds",
        f"Data are too old from max({n.APART:g} × `stale_after_seconds`, {n.STALE:g} × the time between two samples) on:"
        f" {duration(n.APART * _DEFAULT.stale_after_seconds)} by default.",
        ("too old",),
    ),
    Term(
        "skipped",
        f"In the largest step of a commit that was late, {n.APART:g} × as fast as any other or more, messages were passed to the log's"
        f" end, of which the handlers can have counted less than {percent(n.PART)}. A pace alone proves nothing, nor does a step amid"
        " what waits: compaction and aborted transactions leave offsets that no record has. What a commit that stood passes while a"
        " group that usually has members has none, nobody read, at any pace: if it is more than it usually reads meanwhile, and"
        " happens no more than twice.",
        ("that nobody read",),
    ),
    Term(
        "doubtful",
        f"{n.COUNTED:g} messages or more were passed in one step, of which the handlers counted less than {percent(n.MOST)}, but can"
        f" have counted {percent(n.PART)} or more. Where nobody counts them: at {_DEFAULT.skip_pace_ratio:g} × the usual pace"
        f" (`skip_pace_ratio`) or more, and {n.SKIP_RATE:,.0f} messages/s or more in all partitions; {n.APART:g} × as fast as any"
        " partition of the topic that had stood as long, moved on at the same moment and was still behind; or they had waited for"
        f" more than {duration(n.DEPLOY_SECONDS)}, and were passed {n.FAR:g} × as fast as anything before or since, or fewer than"
        f" {n.FEW_SAMPLES:g} other steps show how fast it reads; or they are the first records of a new partition. A step may have been"
        " read since the commit before it, unless the commit stood, and at least for the usual time between two commits.",
        ("so fast that", "quick step"),
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
        f" {n.APART:g} × its longest time between two polls before, and for longer than any member of the group that polled again in"
        " the window; or its client's statistics no longer change.",
        ("hung", "do not poll", "hang"),
    ),
    Term(
        "own work",
        "The consumer itself is the limit. The rules of question 11 say by what, in their order; where a consumer has no queues that"
        " are measured, later questions ask for those of its threads and handlers again.",
        ("queues of its own",),
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
        f" {n.MORE:g} × what they allow, while {n.MORE:g} × as much arrives and it reads {percent(n.NEAR_QUOTA)} of what they allow or"
        " more. Asked of the consumer's fetches alone (consumer_byte_rate): a producer's quota only lets less arrive.",
        ("its quota allows", "its fetches wait", "producer quota"),
    ),
    Term(
        "keep up",
        "Not behind (see there). In question 10 and its causes: no partition is behind but those that are stuck, and some advance.",
        ("keeps up", "keeping up", "kept up"),
    ),
    Term(
        "gap in the data",
        f"A commit's sample is overdue after {n.MISSED:g} × the usual time between two samples; the lag of the whole group counts as"
        f" unknown once its last sample is too old (stale_seconds: {n.STALE:g} samples, at least"
        f" {duration(n.APART * _DEFAULT.stale_after_seconds)} by default). What happened within a gap is not guessed: a trend needs"
        f" {n.TREND_SAMPLES:g} samples, and a stop is counted up to the last sample.",
        ("overdue",),
    ),
    Term(
        "miss polls",
        f"A member has not polled for longer than `poll_age_seconds` ({duration(_DEFAULT.poll_age_seconds)}), at least once in the"
        " window. The client's own max.poll.interval.ms is not asked.",
    ),
    Term(
        "committed offset",
        "Committed offsets, as the exporter or Kafka tells. A partition of which none is known has an unknown lag, never 0: the first"
        " question names it (“not of …”), and the lag is that of the others. If no partition has one, the data cannot be used"
        " (question 1). A group that keeps its offsets elsewhere (Flink, Spark) needs that exporter's profile.",
        ("committed offsets",),
    ),
    Term(
        "nearest change",
        f"What was recorded, restarted or added within {duration(n.CHANGE_SECONDS)} before the lag began, or just after: named with"
        " its distance in time, never as a cause.",
    ),
    Term(
        "no more than before",
        f"Within {percent(n.NOISE)} of the baseline: two samples of the same differ by as much.",
    ),
    Term(
        "again and again",
        f"{n.SEVERAL:g} times or more: twice may be chance. Standstills count in all the data, if each made it late and the last is no"
        f" longer ago than {n.MORE:g} × the usual time between two.",
    ),
    Term(
        "went back",
        "A commit is lower than an earlier one of baseline or window, even if that was read again since, by more than what arrives in"
        f" two samples or half of the objective, whichever is longer, plus {n.SLACK:g} messages: a member that hands over commits so"
        f" late. Above the log's end: in each of the last {n.FEW_SAMPLES:g} samples, by more than what arrives in two samples plus"
        f" {n.SLACK:g} messages. A single sample that is off counts for nothing.",
        ("go back", "backwards", "above the log's end", "above the end"),
    ),
    Term(
        "has no members",
        "0 were counted in the last two samples, and no partition's commit has moved for more than"
        f" {n.APART:g} × the time between two samples. A count of 0 while commits moved {n.FEW_SAMPLES:g} times says nothing. If it"
        f" usually has some ({n.MOST:g} or more on average in the baseline, or that is not known), it lags at once, however little"
        " waits.",
        ("no members", "has none"),
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
        "The verdict if a question that needs an answer has none: questions 1, 4, 5 and 8, and those by elimination, whatever is proven"
        " later; any other, unless a later cause is proven. Also instead of an all-clear, if a side question is open. The finding names"
        " the question, the candidates that are left, and the look that would decide.",
        ("cannot tell",),
    ),
    Term(
        "proof",
        "A yes by evidence that only this cause makes. It is the verdict even if an earlier question that needs one cannot be answered"
        " (each says so): that one is listed as `not_ruled_out`. An earlier yes comes before it.",
        ("proven", "not_ruled_out"),
    ),
    Term(
        "by elimination",
        "No evidence of its own: the verdict of what is left once every question on the way was answered (`stuck_partition` of"
        " question 19, `failing_records` of question 23, `too_few_consumers`, `partition_ceiling`).",
        ("elimination", "ruled out"),
    ),
    Term(
        "order",
        f"Questions are asked by their numbers. {WHY_THIS_ORDER} A yes that ends at a verdict comes before whatever is asked later; one"
        " that leads on (questions 1, 4, 8 and 11) only says where. What else is true is named in the"
        " finding: beside the verdict (also true), or as a second cause with its share. See also: proof.",
        ("priority", "also true", "second cause"),
    ),
    Term(
        "origin",
        f"Of each number, in brackets before its reason. {ORIGINS}",
    ),
    Term(
        "side question",
        "If it cannot be answered, the walk goes on, and the finding says so (`also_seen`). But then nothing is called healthy,"
        " recovered or catching up: that is `cannot_tell`.",
        ("also_seen",),
    ),
    Term(
        "brokers",
        "What slows a group down from the brokers' side (partitions short of replicas or without a leader, slow disks, full request"
        " queues) is no question of this tree: triage judges the brokers' own signals beside it, and `workbench impact` names who slows"
        " whom, with their numbers. Cold reads are judged of remote storage only (question 20), not of brokers' own disks and page"
        " caches. See docs/impact.md.",
        ("broker", "under replicated", "leaderless"),
    ),
)  # fmt: skip
# Words of sentences, which ask for nothing.
_EVERYDAY = frozenset({"before", "usual", "few", "stopped", "side"})


def asked_names() -> list[str]:
    """Words of the rules as people ask for them."""
    return [word for it in TERMS for word in (it.name, *it.also) if word not in _EVERYDAY]


def term_of(name: str) -> Term | None:
    """The word of this name, or that is also called so."""
    wanted = name.replace("_", " ").lower()
    return next((it for it in TERMS if wanted in (word.replace("_", " ") for word in (it.name, *it.also))), None)


def terms_in(texts: Sequence[str]) -> list[Term]:
    """Words that these sentences use, in the order of the page."""
    said = " ".join(texts).lower()
    return [it for it in TERMS if any(re.search(rf"\b{re.escape(word)}\b", said) for word in (it.name, *it.also))]
