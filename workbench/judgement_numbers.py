"""Every number of the judgement that is no setting: its unit, why it is this one, and where it comes from.

One idea has one number: "clearly more" is the same 1.2 times wherever something is compared with before or with its peers. What a
user may want to change is a setting instead (`settings.Thresholds`). `workbench tree` and docs/tree.md print both.
"""

from __future__ import annotations

from typing import Literal

Origin = Literal["kafka", "measured", "chosen"]
Side = Literal["<", ">"]


class Number(float):
    """A number that says what it is.

    Attributes:
        unit: of the value; "×" for a multiple, "share" for a part of a whole.
        why: reason for this value.
        origin: a fact of Kafka or its clients, measured on real consumers, or chosen.
        side: where what the reason names lies: "<" of "clearly less"; None: it names no side.
    """

    __slots__ = ("origin", "side", "unit", "why")

    def __new__(cls, value: float, unit: str, why: str, origin: Origin = "chosen", side: Side | None = None) -> Number:
        """A float with its reason."""
        it = super().__new__(cls, value)
        it.unit, it.why, it.origin, it.side = unit, why, origin, side
        return it

    def __getnewargs__(self) -> tuple[float, str, str, Origin, Side | None]:  # type: ignore[override]
        """So that copies and pickles of it are what it is; Spark sends numbers to its workers."""
        return float(self), self.unit, self.why, self.origin, self.side

    def reason(self, relation: str) -> str:
        """Why it is this one, for a value in this relation to it: what is not below "clearly less" is "not clearly less"."""
        return f"not {self.why}" if self.side is not None and self.side not in relation else self.why

    unit: str
    why: str
    origin: Origin
    side: Side | None


# Comparison: with before, with peers, with the whole.
NOISE = Number(0.05, "share", "two scrapes of the same differ by as much", "measured")
TENTH = Number(0.1, "share", "what is a tenth of the rest does not matter beside it")
PART = Number(
    0.3, "share", "a small part: with the error of two clocks and scrapes still less than half", "chosen", "<"
)
MOST = Number(0.5, "share", "more than half", "chosen", ">")
LESS = Number(0.8, "×", "clearly less: beyond what traffic does in minutes", "measured", "<")
MORE = Number(1.2, "×", "clearly more: beyond an uneven hash of keys and what traffic does in minutes", "measured", ">")
APART = Number(1.5, "×", "half as much again: another one of its kind, not the same one seen twice", "chosen", ">")
FAR = Number(3.0, "×", "far more: no variation of the same load", "chosen", ">")

SEVERAL = Number(3, "times", "twice may be chance")

# Samples.
FEW_SAMPLES = Number(3, "samples", "fewer show neither a rhythm nor a stop")
TREND_SAMPLES = Number(5, "samples", "fewer show no trend")
MISSED = Number(2.5, "intervals", "one sample is missing, not only late")
RECENT = Number(1 / 3, "of the window", "long enough for several samples, short enough to see a change of trend")
STALE = Number(3.5, "intervals", "three samples are missing")

# Time.
PAUSE_SECONDS = Number(90.0, "s", "a rebalance or a long garbage collection takes some tens of seconds", "measured")
QUOTA_PAUSE_SECONDS = Number(300.0, "s", "a broker's quota windows hold a fetch up for no longer", "measured")
OLD_REST_SECONDS = Number(
    1800.0, "s", "what nobody touched for half an hour, at the end of a log where nothing arrives, is a rest"
)
DRAIN_SECONDS = Number(3600.0, "s", "an end further away calms nobody")
LOSS_SECONDS = Number(86_400.0, "s", "a loss within a day changes what is done first")
COMMIT_SECONDS = Number(
    10.0, "s", "from a handler to an exporter that has seen the commit: auto.commit.interval.ms is 5 s", "kafka"
)
HELD_SECONDS = Number(0.5, "s", "a broker holds a fetch so long if there is nothing new: fetch.max.wait.ms", "kafka")
FETCH_SECONDS = Number(0.1, "s", "of a fetch that is not throttled, where no round trip is measured", "measured")
EXTRAPOLATED_SECONDS = Number(600.0, "s", "beyond the data a time lag is a guess: Datadog's agent has the same limit")
USUAL_SECONDS = Number(900.0, "s", "less of a baseline does not show what arrives usually")
CHANGE_SECONDS = Number(
    1800.0,
    "s",
    "what changed longer before an onset says nothing about it: an hour and a half of deploys always has one",
)
APPEARING_SECONDS = Number(60.0, "s", "exporters begin with all partitions at once, within a scrape or two")
STOP_SECONDS = Number(
    30.0, "s", "a deploy stops the old members first: terminationGracePeriodSeconds is 30", "measured"
)

DEPLOY_SECONDS = Number(600.0, "s", "a deploy that takes longer has failed: Kubernetes' progressDeadlineSeconds is 600")

# Work.
BUSY = Number(
    0.75,
    "of a thread",
    "its handlers take nearly all of a loop's time: fetching and committing take the rest",
    "measured",
)
IDLE = Number(0.25, "of the time", "a thread that waits for records so little is busy", "measured")
NEVER_EMPTY = Number(20.0, "messages", "so many are always there: fetched, and waiting for the handlers", "measured")
NEAR_QUOTA = Number(0.4, "of the quota", "in bursts with pauses the mean is less than half")

# Brokers.
ANSWER_SECONDS = Number(
    0.02,
    "s",
    "no part of a request takes so long on a broker that is well: 1 ms, and 70 ms on a full network card",
    "measured",
)
FLUSH_SECONDS = Number(1.0, "s", "a flush takes a disk that is well some tens of milliseconds", "measured")

# Records.
SKIP_RATE = Number(50_000.0, "messages/s", "more than most consumers handle", "measured")
COUNTED = Number(50.0, "records", "fewer do not say how many a counter counts for each one committed")
EXPECTED = Number(20.0, "records", "where so many arrive usually, none is no chance")
SLACK = Number(10.0, "messages", "an exporter reads the two offsets at different moments", "measured")
STABLE_STATE = Number(
    3.2, "mean state", "a group whose mean state is below it rebalances most of the time (stable is 4)", "kafka"
)
FREEZES = Number(5.0, "×", "no handler holds its commits for five times the shortest freeze that counts")

# Advice.
UTILISATION = Number(0.8, "share", "of a member's capacity: the rest is for bursts")
CATCH_UP = Number(15.0, "×", "times the objective: in so long a backlog should be gone")


def all_numbers() -> dict[str, Number]:
    """Every number by its name, in the order of this file."""
    return {name: it for name, it in globals().items() if isinstance(it, Number)}
