"""Series of one partition under the names of clients that had it one after the other."""

from __future__ import annotations

import numpy as np

from tests.collect.test_copies import HOUR, counted, samples_of
from workbench.collect.current_partition_owner import owner_at
from workbench.profiles import load_profile

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
