"""What can go wrong with measurements: a signal missing, rows lost, twice or in disorder, clocks off, gaps, resets, labels changing.

Nothing of it may crash triage, and none of it may turn a sick subscription into a healthy one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evaluation.stories import END, TIMES, Story, growing, steps
from tests.triage.judging import rows_of
from workbench.samples import SAMPLES_SCHEMA
from workbench.triage.tree_walk import candidates
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm

FULL = steps(0.05, 0.95, at=-80.0)
LAG, AGE = growing(20.0, start=5.0, since=-90.0), growing(0.5, start=0.1, since=-90.0)


def base(story: Story, **people: Any) -> Story:
    """Two partitions that fall behind, two members."""
    story.partitions = story.members = 2
    return story.all_partitions(lag=LAG, time_lag=AGE).people(**people)


def stuck(story: Story) -> Story:
    """One of four commits does not move."""
    story.partitions, story.members = 4, 2
    story.partition(0, lag=growing(50.0, start=5, since=-90), time_lag=growing(1.0, since=-90))
    for number in range(1, 4):
        story.partition(number)
    return story.calm()


SICK: dict[str, tuple[Callable[[Story], Story], Verdict]] = {
    "slow": (
        lambda s: base(s).fetch_queue().enqueue(steps(0.001, 0.4)).processor("order").processor("view")
        .processor("refund", seconds=steps(0.01, 0.4, at=-80.0), fill=FULL),
        Verdict.SLOW_PROCESSOR,
    ),
    "stopped": (
        lambda s: replace(s, partitions=2, members=2).all_partitions(lag=growing(50.0, since=-70), time_lag=None)
        .people(keep=TIMES < -65, group_members=steps(2, 0, at=-65)),
        Verdict.CONSUMER_STOPPED,
    ),
    "stuck": (stuck, Verdict.STUCK_PARTITION),
    "ceiling": (lambda s: base(s).fetch_queue().enqueue().processor("order"), Verdict.PARTITION_CEILING),
    "throttled": (lambda s: base(s, throttle=0.5).fetch_queue().enqueue().processor("order"), Verdict.THROTTLED),
    "network": (lambda s: base(s, rtt=steps(0.01, 2.0)).fetch_queue().enqueue().processor("order"), Verdict.SLOW_NETWORK),
    "saturated": (
        lambda s: base(s).fetch_queue().enqueue(steps(0.001, 0.4)).processor("order", fill=FULL), Verdict.SATURATED_PROCESSORS,
    ),
    "delay": (
        lambda s: base(s, delay_fill=0.99).fetch_queue().enqueue(steps(0.001, 0.4)).processor("order", fill=FULL),
        Verdict.DELAY_BACKLOG,
    ),
    "hot-key": (
        lambda s: base(s).fetch_queue().enqueue(steps(0.001, 0.4)).processor("order", fill=[FULL, 0.02, 0.02])
        .processor("refund"),
        Verdict.HOT_KEY,
    ),
    "storm": (
        lambda s: base(s, rebalances=lambda t: np.floor(np.maximum(0, t + 60) / 12)).fetch_queue().processor("order"),
        Verdict.REBALANCE_STORM,
    ),
}  # fmt: skip
WELL: dict[str, Callable[[Story], Story]] = {
    "healthy": lambda s: s.all_partitions().calm(),
    "quiet": lambda s: s.all_partitions(rate=0.0, lag=0.0, time_lag=0.0).calm(),
}


@pytest.fixture(scope="module")
def originals() -> dict[str, pa.Table]:
    """The samples of each story, under its own group and topic."""
    made = {name: make(Story(group=name, topic=f"t-{name}")) for name, (make, _) in SICK.items()}
    made |= {name: make(Story(group=name, topic=f"t-{name}", partitions=2, members=2)) for name, make in WELL.items()}
    return {name: thinned(story.samples()) for name, story in made.items()}


def thinned(table: pa.Table) -> pa.Table:
    """A moment every ten seconds: enough for the rules, and a fifth of the work."""
    seconds = pc.cast(table["ts"], pa.int64()).to_numpy() // 1_000_000
    return table.filter(pa.array(seconds % 10 == round(END.timestamp()) % 10))


def renamed(table: pa.Table, name: str) -> pa.Table:
    """The same under another group and topic, so that many fit into one frame."""
    for column, value in (("group", name), ("topic", f"t-{name}")):
        there = pc.is_valid(table[column])
        at = table.schema.get_field_index(column)
        table = table.set_column(
            at, SAMPLES_SCHEMA.field(column), pc.if_else(there, value, pa.scalar(None, pa.string()))
        )
    return table


def test_the_stories_are_what_they_say(spark: Any, originals: dict[str, pa.Table]) -> None:
    """The tables that are mutated below get their verdicts while they are whole."""
    rows = rows_of(spark, pa.concat_tables(originals.values()))
    assert {name: rows[name].verdict for name in SICK} == {name: verdict.value for name, (_, verdict) in SICK.items()}
    assert {rows[name].verdict for name in WELL} == {"healthy"}


def test_removing_any_one_signal_never_makes_the_sick_healthy_nor_the_verdict_wrong(
    spark: Any, originals: dict[str, pa.Table]
) -> None:
    """Without a signal the verdict is the same, or withheld with the truth among the candidates; or there is no lag to speak of."""
    tables = [
        renamed(table.filter(pc.not_equal(table["signal"], signal)), f"{name}/{signal}")
        for name, table in originals.items()
        for signal in table["signal"].unique().to_pylist()
    ]
    rows = rows_of(spark, pa.concat_tables(tables))
    for key, row in rows.items():
        name, signal = key.split("/")
        if name in WELL:
            assert row.verdict in ("healthy", "cannot_tell", "no_data"), (key, row.verdict)
            continue
        wanted = SICK[name][1]
        if row.verdict == "cannot_tell":
            assert wanted in candidates(row.answers), key
        else:
            assert row.verdict == wanted or (row.verdict == "no_data" and signal == "consumer_lag"), (
                key,
                row.verdict,
            )


Mutation = Callable[[pa.Table, random.Random], pa.Table]


def _mask(table: pa.Table, keep: np.ndarray) -> pa.Table:
    return table.filter(pa.array(keep))


def dropped(table: pa.Table, chance: random.Random) -> pa.Table:
    """Up to a third of the rows are lost."""
    share = chance.uniform(0.02, 0.33)
    return _mask(table, np.array([chance.random() > share for _ in range(table.num_rows)]))


def duplicated(table: pa.Table, chance: random.Random) -> pa.Table:
    """Some rows come twice."""
    again = [at for at in range(table.num_rows) if chance.random() < 0.2]
    return pa.concat_tables([table, table.take(again)])


def shuffled(table: pa.Table, chance: random.Random) -> pa.Table:
    """In any order."""
    order = list(range(table.num_rows))
    chance.shuffle(order)
    return table.take(order)


def _shifted(table: pa.Table, seconds: float, which: np.ndarray) -> pa.Table:
    micros = pc.cast(table["ts"], pa.int64()).to_numpy() + np.where(which, round(seconds * 1e6), 0)
    stamps = pa.array(micros).cast(pa.timestamp("us", tz="UTC"))
    return table.set_column(table.schema.get_field_index("ts"), SAMPLES_SCHEMA.field("ts"), stamps)


def skewed(table: pa.Table, chance: random.Random) -> pa.Table:
    """The clock behind one signal is off by up to a minute."""
    signal = chance.choice(sorted(set(table["signal"].to_pylist())))
    return _shifted(table, chance.uniform(-60, 60), np.array([name == signal for name in table["signal"].to_pylist()]))


def all_skewed(table: pa.Table, chance: random.Random) -> pa.Table:
    """All clocks are off."""
    return _shifted(table, chance.uniform(-60, 60), np.ones(table.num_rows, dtype=bool))


def gap(table: pa.Table, chance: random.Random) -> pa.Table:
    """Nothing was measured for up to 40 s."""
    times = pc.cast(table["ts"], pa.int64()).to_numpy() / 1e6
    start, length = times.max() - chance.uniform(0, 150), chance.uniform(5, 40)
    return _mask(table, ~((times >= start) & (times <= start + length)))


def reset(table: pa.Table, chance: random.Random) -> pa.Table:
    """Counters and offsets of some signals begin anew at some moment, as after a restart or a topic made again."""
    times = pc.cast(table["ts"], pa.int64()).to_numpy() / 1e6
    at = times.max() - chance.uniform(0, 120)
    signals = {"process_time", "processed", "enqueue_time", "rebalances"}
    if chance.random() < 0.3:
        signals |= {"committed_offset", "log_end_offset"}
    hit = np.array([name in signals for name in table["signal"].to_pylist()]) & (times >= at)
    values = table["value"].to_numpy(zero_copy_only=False).astype(float)
    start = np.nanmin(values[hit]) if hit.any() else 0.0
    moved = np.where(hit, np.maximum(0.0, values - start), values)
    column = pa.array(moved, mask=np.isnan(moved))
    return table.set_column(table.schema.get_field_index("value"), SAMPLES_SCHEMA.field("value"), column)


def relabelled(table: pa.Table, chance: random.Random) -> pa.Table:
    """A member, a processor or the source has another name from some moment on."""
    times = pc.cast(table["ts"], pa.int64()).to_numpy() / 1e6
    later = pa.array(times >= times.max() - chance.uniform(0, 120))
    column = chance.choice(["member", "processor", "source"])
    at = table.schema.get_field_index(column)
    there = pc.and_(later, pc.is_valid(table[column]))
    changed = pc.if_else(there, pc.binary_join_element_wise(table[column], "new", "-"), table[column])
    return table.set_column(at, SAMPLES_SCHEMA.field(column), changed)


def holed(table: pa.Table, chance: random.Random) -> pa.Table:
    """Some values are none."""
    hit = pa.array([chance.random() < 0.25 for _ in range(table.num_rows)])
    table = table.set_column(
        table.schema.get_field_index("value"), SAMPLES_SCHEMA.field("value"),
        pc.if_else(hit, pa.scalar(None, pa.float64()), table["value"]),
    )  # fmt: skip
    return table.set_column(
        table.schema.get_field_index("flag"), SAMPLES_SCHEMA.field("flag"), pc.if_else(hit, "nan", table["flag"])
    )


MUTATIONS: tuple[Mutation, ...] = (
    dropped, duplicated, shuffled, skewed, all_skewed, gap, reset, relabelled, holed,
)  # fmt: skip
COUNT, BATCH = 1000, 250


@pytest.mark.parametrize("batch", [0, *(pytest.param(it, marks=pytest.mark.slow) for it in range(1, COUNT // BATCH))])
def test_a_mutated_capture_neither_crashes_nor_heals(spark: Any, originals: dict[str, pa.Table], batch: int) -> None:
    """A thousand captures, each with one to three things gone wrong."""
    chance = random.Random(batch)
    names = list(originals)
    tables, done = [], {}
    for number in range(BATCH):
        name = names[number % len(names)]
        table = originals[name]
        chosen = chance.sample(MUTATIONS, chance.randint(1, 3))
        for mutate in chosen:
            table = mutate(table, chance)
        key = f"{name}/{number}"
        done[key] = [mutate.__name__ for mutate in chosen]
        tables.append(renamed(table, key))
    rows = rows_of(spark, pa.concat_tables(tables))
    for key, how in done.items():
        row = rows.get(key)
        if row is None:
            continue  # nothing of it lies in the window: no finding at all, which `triage` tells as an error
        if key.split("/")[0] in SICK:
            assert row.verdict not in ("healthy", "producer_burst"), (key, how)
        else:
            assert row.verdict in [verdict.value for verdict in Verdict], (key, how)
