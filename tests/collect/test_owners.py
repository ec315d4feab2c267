"""Series of one partition under the names of clients that had it one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from tests.collect.test_copies import HOUR, counted, samples_of
from workbench.collect.current_partition_owner import of_present_owners, owner_at, samples_of_present_owners
from workbench.collect.source_join import with_derived
from workbench.profiles import MappingRule, Profile, load_profile
from workbench.samples import FloatArray, SampleBatch, SeriesTable, concat

AT = np.arange(0, 600, 30, dtype=np.int64) * 1_000_000


def test_the_owner_is_the_one_whose_commit_has_moved_last() -> None:
    """A former client's commit stands, however long its series goes on; and it may become the owner again."""
    half = len(AT) // 2
    former = np.minimum(np.arange(len(AT)) * 10.0, 90.0)
    present = AT[half:], 100.0 + np.arange(len(AT) - half) * 10.0
    assert owner_at(AT, [(AT, former), present]).tolist() == [0] * half + [1] * half
    back = np.where(np.arange(len(AT)) < 15, former, former + 500.0 + np.arange(len(AT)))
    stands = AT[half:], np.full(len(AT) - half, 100.0)
    assert owner_at(AT, [(AT, back), stands])[-5:].tolist() == [0] * 5


def test_of_commits_that_never_move_the_one_that_came_last_counts() -> None:
    """On a quiet topic; and before anything is seen, nobody has it."""
    one, other = (AT[2:], np.full(len(AT) - 2, 7.0)), (AT[10:], np.full(len(AT) - 10, 9.0))
    found = owner_at(AT, [one, other]).tolist()
    assert found == [-1] * 2 + [0] * 8 + [1] * 10
    assert owner_at(AT, []).tolist() == [-1] * len(AT)


def test_a_former_clients_series_neither_refuses_nor_hides_the_present_one() -> None:
    """An exporter goes on showing it; declared as copies or not, lag and commit are those of whoever reads now."""
    where = {"group": "wish", "topic": "wishes", "partition": "0", "cluster_name": "prod"}
    lag = {**where, "__name__": "kafka_consumergroup_group_lag"}
    commit = {**where, "__name__": "kafka_consumergroup_group_offset"}
    later = HOUR[HOUR >= 1800]
    grows = (later - 1800) * 12.0
    read = np.where(HOUR < 1800, HOUR * 30.0, 1800 * 30.0)
    shown = [
        ({**lag, "client_id": "a", "consumer_id": "a-1"}, HOUR, np.full(len(HOUR), 3.0)),
        ({**commit, "client_id": "a", "consumer_id": "a-1"}, HOUR, read),
        ({**lag, "client_id": "b", "consumer_id": "b-1"}, later, grows),
        ({**commit, "client_id": "b", "consumer_id": "b-1"}, later, 1800 * 30.0 + (later - 1790) * 18.0),
    ]
    for copies in ((), ("client_id",)):
        found = counted(shown, profile=load_profile("kafka_lag_exporter"), copies=copies)
        assert samples_of(found.series, "consumer_lag")[-1] == (HOUR[-1], grows[-1])
        assert len(samples_of(found.series, "consumer_lag")) == len(HOUR)
        assert [value for _, value in samples_of(found.series, "committed_offset")][-1] > 1800 * 30.0


LAG = {
    "metric": "our_lag",
    "labels": {"group": "group", "topic": "topic", "partition": "partition", "member": "member"},
}
OURS = [Profile(name="ours", title="Ours", signals={"consumer_lag": MappingRule.model_validate(LAG)})]
STEPS = np.arange(40)
BUSY = STEPS % 7 + 1.0  # the lag of a member that reads
GROWS = STEPS * 1000.0
LATE = STEPS >= 20
Told = Sequence[tuple[FloatArray, "np.ndarray[tuple[int], np.dtype[np.bool_]]"]]
ALL = np.ones(40, bool)


def told_by(
    members: Sequence[str], told: Told, *, signal: str = "consumer_lag", partition: int | None = 2
) -> SeriesTable:
    """What each member tells of a partition: each is asked every 15 s, at a moment of its own."""
    batch = SampleBatch("prod", "ours")
    for place, (member, (values, there)) in enumerate(sorted(zip(members, told, strict=True), key=lambda it: it[0])):
        labels = {"group": "g", "topic": "t", "partition": partition, "member": member}
        batch.add(signal, labels, STEPS[there].astype(np.int64) * 15_000_000 + place * 4_000_000, values[there])
    return batch.to_series()


def read_of(series: SeriesTable) -> dict[int, float]:
    """Values by step, of all series together."""
    found = zip((series.ts_us // 15_000_000).tolist(), series.values.tolist(), strict=True)
    return dict(sorted(found))


@pytest.mark.parametrize(
    ("told", "last", "why"),
    [
        ([(np.where(LATE, 12.0, BUSY), ALL), (GROWS, LATE)], GROWS[-1], "the former one stands low, and the new one falls behind"),
        ([(np.where(LATE, 6e4, BUSY), ALL), (BUSY, LATE)], BUSY[-1], "the former one stands high, and the new one keeps up"),
        ([(np.where(LATE, 6e4, BUSY), ALL), (STEPS * 0.0, LATE)], 0.0, "the new one has nothing to read"),
        ([(np.where(LATE, 9.0, BUSY), STEPS < 30), (GROWS, LATE)], GROWS[-1], "the former one's series ends at last"),
        ([(BUSY, STEPS < 30), (STEPS * 0.0, LATE)], 0.0, "the former one goes on for a while, and is gone"),
        (
            [(np.where((STEPS >= 10) & ~LATE, 3.0, BUSY), ALL), (np.where(LATE, 5e4, BUSY), STEPS >= 10)],
            BUSY[-1],
            "it came back to the first one",
        ),
        (
            [(np.where(LATE, 6e4, BUSY), ALL), (np.full(40, 7e4), STEPS < 39), (GROWS, LATE)],
            GROWS[-1],
            "two former ones stand",
        ),
        ([(np.full(40, 6e4), ALL), (BUSY, ALL)], BUSY[-1], "one has stood since before the data begin"),
        ([(np.full(40, 6e4), ALL), (np.where(LATE, GROWS, 4.0), ALL)], GROWS[-1], "the one that reads stood for a while, too"),
        ([(np.where(LATE, np.nan, BUSY), ALL), (GROWS, LATE)], GROWS[-1], "the former one tells no number any more"),
    ],
)  # fmt: skip
def test_of_two_members_that_tell_a_partition_the_one_that_reads_it_counts(told: Told, last: float, why: str) -> None:
    """Whatever they are called, and also in a recording: clients of some frameworks go on telling what was taken from them."""
    for names in permutations(("a", "b", "c")[: len(told)]):
        series = told_by(names, told)
        found, notes = of_present_owners(series, OURS)
        assert read_of(found)[39] == last, why
        assert len(found.ts_us) == len(np.unique(found.ts_us)), "one value at a time"
        assert any("another member reads by now" in it for it in notes)
        recorded = SeriesTable.of_samples(samples_of_present_owners(series.to_samples(), OURS)[0])
        assert read_of(recorded) == read_of(found)


@pytest.mark.parametrize("told", [[(BUSY, ALL), (GROWS, ALL)], [(STEPS * 0.0, ALL), (np.full(40, 6e4), ALL)]])
def test_of_two_members_that_both_go_on_or_both_stand_none_counts(told: Told) -> None:
    """Nobody knows who reads the partition: its lag is not known, and that is said."""
    found, notes = of_present_owners(told_by(("a", "b"), told), OURS)
    assert np.isnan(found.values).all()
    assert notes == ("nothing shows which member reads partition 2 of topic t (a and b): not judged",)


def test_members_that_have_a_partition_one_after_the_other_are_both_kept() -> None:
    """A rebalance is no contradiction; nor are two members that tell of their own work."""
    one_by_one = told_by(("a", "b"), [(BUSY, ~LATE), (GROWS, LATE)])
    assert of_present_owners(one_by_one, OURS) == (one_by_one, ())
    queues = told_by(("a", "b"), [(BUSY, ALL), (GROWS, ALL)], signal="fetch_queue_length")
    assert of_present_owners(queues, OURS) == (queues, ())
    services = told_by(("a", "b"), [(BUSY, ALL), (GROWS, ALL)], signal="time_lag", partition=None)
    assert of_present_owners(services, OURS) == (services, ())


STANDS = np.full(40, 7.0)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([(BUSY, ~LATE), (STANDS, ALL)], "the one that read it is gone, and another one has stood all along"),
        ([(BUSY, ~LATE), (STANDS, ALL), (np.full(40, 6e4), ALL)], "so have two others"),
        ([(STANDS, ~LATE), (STEPS * 0.0, ALL)], "both stood, and one is gone"),
        ([(np.where(LATE, np.nan, BUSY), ALL), (STANDS, ALL)], "the one that read it tells no number any more"),
        ([(BUSY, STEPS < 10), (np.where(STEPS < 15, 3.0, 4.0), STEPS < 20), (STEPS * 0.0, ALL)], "two are gone"),
    ],
)
def test_what_has_stood_all_along_is_nobodys_when_the_one_that_read_is_gone(told: Told, why: str) -> None:
    """It may be what a former one was left with: nothing shows who reads, whatever they are called."""
    for names in permutations(("a", "b", "c")[: len(told)]):
        found, notes = of_present_owners(told_by(names, told), OURS)
        late = found.ts_us >= 25 * 15_000_000
        assert late.any() and np.isnan(found.values[late]).all(), why
        assert notes[-1].startswith("nothing shows which member reads partition 2 of topic t"), why


@pytest.mark.parametrize(
    ("told", "last"),
    [
        ([(STEPS * np.nan, ALL), (STANDS, ALL)], 7.0),
        ([(STANDS, ALL), (STANDS, ALL)], 7.0),
        ([(STANDS, STEPS < 30), (STANDS, ALL)], 7.0),
        ([(STANDS, STEPS < 30), (BUSY, LATE)], BUSY[-1]),
    ],
)
def test_no_number_is_no_claim_and_one_and_the_same_is_no_contradiction(told: Told, last: float) -> None:
    """The series that has a number stays, whatever its member is called; so does what was told before another one came."""
    for names in permutations(("a", "b")):
        found, _ = of_present_owners(told_by(names, told), OURS)
        assert read_of(found)[39] == last
        assert sorted(read_of(found)) == list(range(40)), "no time is lost"
        assert not np.isnan(found.values).any()


def test_a_recording_derives_no_lag_of_what_a_former_member_has_told() -> None:
    """Each round derives lags by itself, of both members' commits; another group's stay as they were."""
    rounds = []
    for number in range(40):
        batch = SampleBatch("prod", "librdkafka")
        for place, (member, group, read) in enumerate(
            [("a", "g", min(number, 20)), ("b", "g", number), ("c", "other", number)]
        ):
            if member == "b" and number < 20:
                continue
            where, at = {"topic": "t", "partition": 2}, [(number * 15 + place * 4) * 1_000_000]
            batch.add("committed_offset", {**where, "group": group, "member": member}, at, [read * 100.0])
            batch.add("log_end_offset", where, at, [number * 100.0 + 5])
        rounds.append(with_derived(batch.to_series()).to_samples())
    found, notes = samples_of_present_owners(concat(rounds), OURS)
    assert notes == ("left out of a (topic t): partitions that another member reads by now",)
    lags = {
        group: [it["value"] for it in found.to_pylist() if it["signal"] == "consumer_lag" and it["group"] == group]
        for group in ("g", "other")
    }
    assert lags["other"] == [5.0] * 40
    assert set(lags["g"]) == {5.0} and len(lags["g"]) >= 38
    assert found.num_rows == len(set(map(str, found.to_pylist())))


def test_members_that_tell_a_topic_as_a_whole_are_no_former_ones() -> None:
    """Each may mean its own part, so what one of them tells is not the topic's; one that is alone may be."""
    labels = {name: name for name in ("group", "topic", "member")}
    whole = [Profile(name="ours", title="Ours", signals={"consumer_lag": MappingRule(metric="our_lag", labels=labels)})]
    for told in (
        [(np.full(40, 6e4), ALL), (BUSY, ALL)],
        [(np.where(LATE, BUSY, 3.0), ALL), (np.where(LATE, 6e4, BUSY), ALL)],
    ):
        series = told_by(("a", "b"), told, partition=0)
        found, notes = of_present_owners(series, whole)
        assert np.isnan(found.values).all() and len(notes) == 1
        assert read_of(of_present_owners(series, OURS)[0])[39] == BUSY[-1], "a topic of one partition"
    alone = told_by(("a",), [(BUSY, ALL)], partition=0)
    assert of_present_owners(alone, whole) == (alone, ())
