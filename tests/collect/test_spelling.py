"""Groups and topics by the names of metrics, where dots and dashes are underscores: which ones are meant, and when nobody can tell."""

from __future__ import annotations

import pytest

from tests.servers import Script, scripted
from workbench.collect.restore_underscored_names import Spelling
from workbench.collect.scrape import scrape
from workbench.collect.source_join import with_groups
from workbench.profiles import Profile, load_profile, parse_profile
from workbench.samples import SampleBatch, SeriesTable

CARRIED = parse_profile(
    """
title: t
member_is: client_id
signals:
  rebalances: {metric: "joins_total_{group}", labels: {group: group, member: instance}}
  start_time: {metric: started_seconds, labels: {member: instance}}
""",
    name="t",
)
LABELLED = parse_profile(
    "title: x\nsignals: {consumer_lag: {metric: lag, labels: {group: group, topic: topic, partition: partition}}}\n",
    name="x",
)
PAGE = b"joins_total_pay_orders_v2 3\nstarted_seconds 5\n"


def joins(*groups: str) -> SeriesTable:
    """Rebalances of groups as a metric's name has them, each of a member of its own."""
    batch = SampleBatch("c", "t")
    for number, group in enumerate(groups):
        batch.add("rebalances", {"group": group, "member": f"m-{number}"}, [1], [1.0])
    return batch.to_series()


def test_a_known_group_is_meant_by_what_is_written() -> None:
    """Kafka's own list says how it is really called; an unknown one stays as it is."""
    spelling = Spelling.of_groups(["pay-orders.v2", "other"])
    found = spelling.corrected(joins("pay_orders_v2", "new_group"), CARRIED)
    assert found.names["group"].to_pylist() == ["pay-orders.v2", "new_group"]
    assert spelling.notes == []


def test_what_two_groups_are_written_as_is_nobodys() -> None:
    """It is left out and said, rather than given to one of them."""
    spelling = Spelling.of_groups(["pay.orders", "pay-orders"])
    found = spelling.corrected(joins("pay_orders", "b"), CARRIED)
    assert found.names["group"].to_pylist() == ["b"]
    assert spelling.notes == ["series of pay_orders left out: it may be the group pay-orders and pay.orders"]


@pytest.mark.parametrize("profiles", [(LABELLED, CARRIED), (CARRIED, LABELLED)])
def test_another_profiles_labels_tell_the_names(profiles: tuple[Profile, ...]) -> None:
    """On the pages of one cluster: the exporter's label is the group's name, and the process's other series are the group's."""
    exporter = b'lag{group="pay-orders.v2",topic="t",partition="0"} 4\n'
    with scripted(Script(body=exporter)) as one, scripted(Script(body=PAGE)) as other:
        table, missing = scrape([one.url, other.url], profiles, cluster="c", timeout_seconds=5)
    assert missing == []
    told = {(row["signal"], row["group"]) for row in table.to_samples().to_pylist()}
    assert told == {(signal, "pay-orders.v2") for signal in ("consumer_lag", "rebalances", "start_time")}


def test_labels_with_underscores_name_the_topic_and_the_application() -> None:
    """As Flink's reporter writes them: the exporter tells the topic's name, and the settings have the application's own."""
    labels = b'{job_name="pay_app",topic="pay_orders_v2",partition="0"}'
    page = b"flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset" + labels + b" 4\n"
    exporter = b'lag{group="g",topic="pay.orders-v2",partition="0"} 4\n'
    with scripted(Script(body=page)) as one, scripted(Script(body=exporter)) as other:
        for members, kept in (({"pay-app": "pay"}, ["pay"]), ({"pay-app": "pay", "pay.app": "two"}, [])):
            table, _ = scrape(
                [one.url, other.url], [load_profile("flink"), LABELLED], cluster="c", timeout_seconds=5, members=members
            )
            rows = [row for row in table.to_samples().to_pylist() if row["signal"] == "read_offset"]
            assert [row["group"] for row in rows] == kept
            assert {row["topic"] for row in rows} <= {"pay.orders-v2"}


def test_a_process_of_two_groups_is_no_members_group() -> None:
    """Its other series are of neither."""
    with scripted(Script(body=PAGE + b"joins_total_b 1\n")) as server:
        table, _ = scrape([server.url], [CARRIED], cluster="c", timeout_seconds=5)
    assert {row["signal"] for row in table.to_samples().to_pylist()} == {"rebalances"}


def test_only_the_groups_that_are_asked_for() -> None:
    """A server cannot be asked by what a name carries, so the others are left out here."""
    profile = CARRIED.model_copy(update={"member_is": "member"})
    found = with_groups(joins("a", "b"), profile, {}, groups=["b"])
    assert found.names["group"].to_pylist() == ["b"]


def lags(*topics: tuple[str, str]) -> SeriesTable:
    """Lags that clients tell of topics."""
    batch = SampleBatch("c", "micrometer")
    for member, topic in topics:
        batch.add("consumer_lag", {"member": member, "topic": topic, "partition": 0}, [1], [1.0])
    return batch.to_series()


@pytest.mark.parametrize(
    ("known", "told", "topics"),
    [
        (["pay.events"], [("old", "pay_events")], ["pay.events"]),
        (["pay.events"], [("new", "pay.events"), ("new", "pay_events")], ["pay.events"]),  # the second name is dropped
        (["pay.events"], [("old", "pay_events"), ("new", "pay.events"), ("new", "pay_events")], ["pay.events"] * 2),
        (["pay_events"], [("old", "pay_events")], ["pay_events"]),
        ([], [("old", "pay_events")], ["pay_events"]),  # nobody else knows it
        (["pay.events-v.2"], [("old", "pay_events-v_2")], ["pay.events-v.2"]),  # dashes stay
        (["pay-events"], [("old", "pay_events")], ["pay_events"]),
    ],
)
def test_a_topic_of_an_old_java_client_has_its_dots_again(
    known: list[str], told: list[tuple[str, str]], topics: list[str]
) -> None:
    """Before 4.1 it tells underscores alone, as of a topic that nobody reads; from then on both names."""
    spelling = Spelling()
    spelling.known["topic"].update(known)
    profile = load_profile("micrometer")
    found = with_groups(spelling.corrected(lags(*told), profile), profile, {"old": "pay", "new": "pay"})
    assert found.names["topic"].to_pylist() == topics
