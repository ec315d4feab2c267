"""Several series with one meaning: copies count once, parts are added up, processes are told apart, and two clusters are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.collect.duplicate_series import Counted, count_once
from workbench.collect.source_agreement import has_gap, surely_whole
from workbench.errors import MixedSourcesError
from workbench.profiles import Profile, load_profile
from workbench.samples import SampleBatch, SeriesTable, grown

EXPORTER = load_profile("kafka_exporter")
CLIENT = load_profile("micrometer")
LAG = {"__name__": "kafka_consumergroup_lag", "consumergroup": "g", "topic": "t", "partition": "0"}
END = {"__name__": "kafka_topic_partition_current_offset", "topic": "t", "partition": "0"}
COMMIT = {**LAG, "__name__": "kafka_consumergroup_current_offset"}
HOUR = np.arange(0, 3600, 30.0)

Exported = tuple[Mapping[str, str], Sequence[float], Sequence[float]]


def counted(series: Sequence[Exported], *, profile: Profile = EXPORTER, copies: Sequence[str] = ()) -> Counted:
    """What is left of these series: labels, seconds, values."""
    batch = SampleBatch("c", profile.name)
    for labels, times, values in series:
        meaning = profile.meaning(labels["__name__"], labels)
        assert meaning is not None
        batch.add(meaning.signal, meaning.labels, [round(at * 1e6) for at in times], values, stat=meaning.stat)
    return count_once(batch.to_series(), [labels for labels, _, _ in series], profile, copies=copies)


def samples_of(found: SeriesTable, signal: str) -> list[tuple[float, float]]:
    """Its (seconds, value), in time."""
    rows = [row for row in found.to_samples().to_pylist() if row["signal"] == signal]
    return sorted((row["ts"].timestamp(), row["value"]) for row in rows)


def a_log(*, rate: float, start: float = 1e6) -> Callable[[np.ndarray], np.ndarray]:
    """Offsets of a log's end at these times."""
    return lambda times: np.floor(start + rate * times)


def test_a_pair_of_servers_counts_once_and_is_named() -> None:
    """Clocks and scrapes 15 s apart: the samples of one server, not of both mixed."""
    end = a_log(rate=100)
    pair = [
        ({**END, "prometheus_replica": name}, HOUR + shift, end(HOUR + shift)) for name, shift in (("a", 0), ("b", 15))
    ]
    found = counted(pair)
    assert samples_of(found.series, "log_end_offset") == list(zip(HOUR, end(HOUR), strict=True))
    assert "2 sources" in found.notes[0]
    assert "prometheus_replica" in found.notes[0]


def test_what_one_server_of_a_pair_has_missed_comes_from_the_other() -> None:
    """A server that was down for ten minutes; at its end as well as in the middle."""
    end = a_log(rate=100)
    for down in ((HOUR > 1200) & (HOUR < 1800), HOUR > 3000, HOUR < 600):
        here = HOUR[~down]
        found = counted(
            [
                ({**END, "replica": "a"}, here, end(here)),
                ({**END, "replica": "b"}, HOUR[::4] + 7, end(HOUR[::4] + 7)),
            ]
        )
        times = np.array([at for at, _ in samples_of(found.series, "log_end_offset")])
        assert np.isin(here, times).all()
        assert np.diff(np.concatenate([[0], times, [3600]])).max() <= 150  # the other one's interval, and a bit
        values = np.array([value for _, value in samples_of(found.series, "log_end_offset")])
        assert (np.diff(values) >= 0).all()


def test_two_exporters_of_one_cluster_count_once() -> None:
    """Nothing but the target tells them apart; their offsets agree."""
    end = a_log(rate=37)
    found = counted(
        [
            ({**END, "instance": f"{name}:9308"}, HOUR + shift, end(HOUR + shift))
            for name, shift in (("a", 0), ("b", 11))
        ]
    )
    assert len(samples_of(found.series, "log_end_offset")) == len(HOUR)


def test_a_frozen_exporter_is_not_used() -> None:
    """It goes on answering scrapes with what was true before, and has more samples than the other."""
    end = a_log(rate=37)
    stood = np.minimum(HOUR, 1200.0)
    frozen = [({**END, "instance": "a:1"}, HOUR, end(stood)), ({**LAG, "instance": "a:1"}, HOUR, 5 + 0 * HOUR)]
    sparse = HOUR[::2] + 3
    live = [({**END, "instance": "b:1"}, sparse, end(sparse)), ({**LAG, "instance": "b:1"}, sparse, 10 * sparse)]
    found = counted([*frozen, *live])
    assert samples_of(found.series, "consumer_lag") == list(zip(sparse, 10 * sparse, strict=True))
    assert any("stands still" in note and "a:1" in note for note in found.notes)


@given(rate=st.floats(0.01, 5000), factor=st.floats(0, 3), start=st.floats(1, 1e9), shift=st.floats(0, 60))
def test_two_clusters_are_refused_even_if_only_the_target_differs(
    rate: float, factor: float, start: float, shift: float
) -> None:
    """No label says that they are two; the ends of one log do."""
    one, other = a_log(rate=rate), a_log(rate=rate * factor, start=1e6 + start + 3600 * rate * 2 + 10)
    series = [({**END, "instance": "a:1"}, HOUR, one(HOUR)), ({**END, "instance": "b:1"}, HOUR, other(HOUR + shift))]
    with pytest.raises(MixedSourcesError, match="topic t are there with instance"):
        counted(series)


@pytest.mark.parametrize("healthy", [2, 300])
def test_one_contradiction_refuses_that_topic_alone(healthy: int) -> None:
    """Another cluster has a topic of the same name: its groups have no usable value, and are named; all others are judged."""
    a, b, other = a_log(rate=20), a_log(rate=20), a_log(rate=3, start=5e7)
    series: list[Exported] = []
    for number in range(healthy):
        topic = {"topic": f"t{number}"}
        series += [
            ({**END, **topic, "instance": "a:1"}, HOUR, a(HOUR)),
            ({**END, **topic, "instance": "b:1"}, HOUR, b(HOUR)),
        ]
        series += [({**LAG, **topic, "instance": name}, HOUR, 5 + 0 * HOUR) for name in ("a:1", "b:1")]
    series += [
        ({**END, "topic": "zz", "instance": "a:1"}, HOUR, a(HOUR)),
        ({**END, "topic": "zz", "instance": "b:1"}, HOUR, other(HOUR)),
    ]
    series += [({**LAG, "topic": "zz", "instance": name}, HOUR, 5 + 0 * HOUR) for name in ("a:1", "b:1")]
    found = counted(series)
    by_topic: dict[str, set[bool]] = {}
    for row in found.series.to_samples().to_pylist():
        by_topic.setdefault(row["topic"], set()).add(row["value"] is not None)
    assert by_topic == {"zz": {False}} | {f"t{number}": {True} for number in range(healthy)}
    assert any("about topic zz: not judged" in note for note in found.notes)


def test_a_label_of_clusters_is_enough() -> None:
    """Also when the two agree by chance: two empty logs."""
    with pytest.raises(
        MixedSourcesError, match=r"Two clusters answer: .* cluster=\"eu\" and cluster=\"us\""
    ) as refused:
        counted([({**END, "cluster": name}, HOUR, 0 * HOUR) for name in ("eu", "us")])
    assert 'match = {cluster = "eu"}' in (refused.value.hint or "")


def test_what_the_settings_declare_counts_once_unseen() -> None:
    """They know better, for instance that one exporter has stood still for days."""
    series = [({**END, "instance": "a:1"}, HOUR, 7 + 0 * HOUR), ({**END, "instance": "b:1"}, HOUR, 100 + HOUR)]
    with pytest.raises(MixedSourcesError):
        counted(series)
    assert len(counted(series, copies=["instance"]).series) == 1


@pytest.mark.parametrize(("label", "copies"), [("zone", ["zone"]), ("prometheus_replica", [])])
def test_of_declared_copies_the_one_that_goes_on_is_used(label: str, copies: Sequence[str]) -> None:
    """A copy that stands still for the last half an hour repeats that all is well; it has as many samples as the other one."""
    end, commit = a_log(rate=20), 1e6 + 0 * HOUR
    stood = np.minimum(HOUR, 1800)
    series = [
        *(({**END, label: name}, HOUR, end(at)) for name, at in (("a", stood), ("b", HOUR))),
        *(({**COMMIT, label: name}, HOUR, commit) for name in ("a", "b")),
    ]
    found = counted(series, copies=copies)
    assert samples_of(found.series, "log_end_offset") == list(zip(HOUR, end(HOUR), strict=True))
    assert any("stands still" in note for note in found.notes)


def test_a_pod_that_has_moved_is_one_series() -> None:
    """Its name changes, and both never speak at once."""
    end = a_log(rate=3)
    before, after = HOUR[HOUR < 1500], HOUR[HOUR >= 1560]
    found = counted([({**END, "pod": "x-1"}, before, end(before)), ({**END, "pod": "x-2"}, after, end(after))])
    assert [at for at, _ in samples_of(found.series, "log_end_offset")] == [*before, *after]


@pytest.mark.parametrize("moved", [45.0, 120.0, 300.0, 1800.0, 3300.0, 3570.0])
@pytest.mark.parametrize("without", [60.0, 90.0])
def test_a_pod_that_has_moved_a_moment_ago_has_samples(moved: float, without: float) -> None:
    """Whichever of the two has been there for most of the time: what the other one measured is not left out."""
    end = a_log(rate=3)
    at, since = HOUR + 0, HOUR[-1] - moved
    before, after = at[at < since - without], at[at >= since]
    found = counted([({**END, "pod": "x-1"}, before, end(before)), ({**END, "pod": "x-2"}, after, end(after))])
    assert [at for at, _ in samples_of(found.series, "log_end_offset")] == [*before, *after]


def test_one_client_id_on_two_pods_is_two_members() -> None:
    """As frameworks name clients by default; a rebalance of one is none of the other."""
    name = {"__name__": "kafka_consumer_coordinator_rebalance_total", "client_id": "consumer-pay-1"}
    found = counted(
        [({**name, "pod": "a"}, HOUR, 3 + 0 * HOUR), ({**name, "pod": "b"}, HOUR, 90 + 0 * HOUR)], profile=CLIENT
    )
    assert sorted(found.series.names["member"].to_pylist()) == ["consumer-pay-1 (a)", "consumer-pay-1 (b)"]
    assert set(found.aliases.values()) == {"consumer-pay-1"}


def test_a_pod_that_was_there_for_a_moment_hides_no_member() -> None:
    """Of one client id on a pod that stays, one that ended within a minute, and one that came later and stays."""
    name = {"__name__": "kafka_consumer_coordinator_rebalance_total", "client_id": "consumer-pay-1"}
    spans = {"a": HOUR, "b": HOUR[(HOUR >= 600) & (HOUR <= 660)], "c": HOUR[HOUR >= 1200]}
    found = counted([({**name, "pod": pod}, at, 3 + 0 * at) for pod, at in spans.items()], profile=CLIENT)
    assert sorted(found.series.names["member"].to_pylist()) == [f"consumer-pay-1 ({pod})" for pod in "abc"]


def test_a_partition_that_goes_to_another_pod_of_one_client_id_is_no_contradiction() -> None:
    """Micrometer drops the meters of a partition that was taken away once a minute: until then, both pods tell its lag."""
    name = {"client_id": "kafka-consumer-orders"}
    whole = {**name, "__name__": "kafka_consumer_coordinator_rebalance_total"}
    lag = {**name, "__name__": "kafka_consumer_fetch_manager_records_lag", "topic": "t", "partition": "0"}
    before, after = HOUR[HOUR <= 1830], HOUR[HOUR >= 1800]
    told = [
        *(({**whole, "pod": pod}, HOUR, 3 + 0 * HOUR) for pod in "ab"),
        ({**lag, "pod": "a"}, before, 7 + 0 * before),
        ({**lag, "pod": "b"}, after, 50 * after),
    ]
    names = counted(told, profile=CLIENT).series.names
    assert sorted(zip(names["signal"].to_pylist(), names["member"].to_pylist(), strict=True)) == [
        (signal, f"kafka-consumer-orders ({pod})") for signal in ("consumer_lag", "rebalances") for pod in "ab"
    ]


def test_parts_of_a_counter_are_added_up() -> None:
    """A label of the metric itself, which no profile maps."""
    name = {"__name__": "kafka_consumer_coordinator_rebalance_total", "client_id": "x", "instance": "a:1"}
    found = counted(
        [({**name, "reason": "join"}, HOUR, HOUR), ({**name, "reason": "leave"}, HOUR[60:], HOUR[60:])], profile=CLIENT
    )
    assert samples_of(found.series, "rebalances")[-1] == (HOUR[-1], 2 * HOUR[-1])
    assert len(found.series) == 1


@pytest.mark.parametrize("label", ["prometheus_replica", "instance"])
def test_of_copies_with_parts_each_part_counts_once(label: str) -> None:
    """On a pair of servers, or on a pod that has moved: all parts of a copy, and of the copies one."""
    name = {"__name__": "kafka_consumer_coordinator_rebalance_total", "client_id": "x"}
    later = HOUR >= 1800
    halves = {"a": ~later if label == "instance" else np.ones(len(HOUR), bool), "b": later | (label != "instance")}
    exported: list[Exported] = [
        ({**name, "reason": reason, label: source}, HOUR[here] + shift, (HOUR[here] + shift) * rate)
        for (source, here), shift in zip(halves.items(), (0, 7), strict=True)
        for reason, rate in (("join", 1.0), ("leave", 10.0), ("evict", 2.0))
    ]
    found = counted(exported, profile=CLIENT)
    assert len(found.series) == 1
    told = samples_of(found.series, "rebalances")
    assert len(told) in range(len(HOUR) - 2, len(HOUR) + 2)
    assert all(value == pytest.approx(13.0 * at) for at, value in told)


def test_a_part_that_a_new_process_makes_late_makes_no_counter_begin_anew() -> None:
    """The process began anew after half an hour, and counts the rare reason again only half an hour later: one fall, not two."""
    name = {"__name__": "kafka_consumer_coordinator_rebalance_total", "client_id": "x", "instance": "a:1"}
    anew, back = len(HOUR) // 2, len(HOUR) - 10
    often = np.where(np.arange(len(HOUR)) < anew, HOUR, HOUR - HOUR[anew])
    rare_at = np.concatenate([HOUR[:anew], HOUR[back:]])
    rare = np.concatenate([np.full(anew, 500.0), np.ones(len(HOUR) - back)])
    found = counted(
        [({**name, "reason": "join"}, HOUR, often), ({**name, "reason": "leave"}, rare_at, rare)], profile=CLIENT
    )
    values = np.array([value for _, value in samples_of(found.series, "rebalances")])
    assert (np.diff(values) < 0).sum() == 1
    assert grown(values)[-1] == pytest.approx(HOUR[anew - 1] + often[-1] + 1)


def test_lag_alone_is_compared_by_its_course() -> None:
    """Two exporters without offsets: alike within what lies between their measurements, or refused."""
    lag = 1000 + 900 * np.sin(HOUR / 300)
    later = 1000 + 900 * np.sin((HOUR + 9) / 300)
    assert len(counted([({**LAG, "pod": "a"}, HOUR, lag), ({**LAG, "pod": "b"}, HOUR + 9, later)]).series) == 1
    with pytest.raises(MixedSourcesError):
        counted([({**LAG, "pod": "a"}, HOUR, lag), ({**LAG, "pod": "b"}, HOUR, 50 * HOUR)])


def test_a_window_that_was_asked_for_in_parts_is_no_conflict() -> None:
    """The same series twice, with other samples."""
    found = counted([(END, HOUR[:50], HOUR[:50]), (END, HOUR[50:], HOUR[50:])])
    assert len(samples_of(found.series, "log_end_offset")) == len(HOUR)
    assert found.notes == ()


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 100), st.sampled_from([1.0, float("nan")])), min_size=1, max_size=12),
        min_size=1,
        max_size=6,
    )
)
def test_what_is_called_whole_at_once_has_no_gap_one_by_one(many: list[list[tuple[int, float]]]) -> None:
    """Steps between samples, and their values: the decision for a million series is never more generous than that for one."""
    batch = SampleBatch("c", "e")
    for number, steps in enumerate(many):
        times = np.cumsum([step for step, _ in steps]) * 1_000_000
        labels = {"topic": "t", "partition": number}
        batch.add("log_end_offset", labels, times.tolist(), [value for _, value in steps])
    series = batch.to_series()
    for at, whole in enumerate(surely_whole(series.ts_us, series.values, series.lengths)):
        span = slice(series.starts[at], series.starts[at] + series.lengths[at])
        known = series.ts_us[span][~np.isnan(series.values[span])]
        assert not (whole and has_gap(known))
