"""Subscriptions by the admin's REST API, on recorded answers: what is told, what is not known, what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.pulsar.pages import PUBLISHED_MS, FakeAdmin, cluster, consumer, partitioned, serving, subscription, topic
from tests.servers import Script, scripted
from workbench import api
from workbench.cli.doctor import command as doctor
from workbench.cli.pulsar import command
from workbench.errors import SourceUnreachableError, UnknownGroupError, UsageError
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.pulsar_observer import PulsarObserver
from workbench.pulsar.subscription_survey import survey
from workbench.pulsar.subscriptions import PulsarSubscription, read_subscriptions
from workbench.queues.group_kinds import REDRIVE, REDRIVE_PREFIX
from workbench.queues.systems import gateway_of, system_of
from workbench.settings import Cluster, checked_cluster

ORDERS, CLICKS = "public/default/orders", "public/default/clicks"
SHARED = subscription(type="Shared", unackedMessages=95, consumers=[consumer()])
TWO = FakeAdmin(
    {
        ORDERS: topic(billing=SHARED, old=subscription()),
        CLICKS: partitioned(
            CLICKS, {0: topic(billing=SHARED), 1: topic(billing=subscription(type="Shared", msgBacklog=0))}, of=2
        ),
    }
)


def only(answer: FakeAdmin, name: str = "billing") -> PulsarSubscription:
    """The row of a subscription on `ORDERS`."""
    with serving(answer) as (found, _):
        [row] = [it for it in read_subscriptions(found).rows if (it.topic, it.subscription) == (ORDERS, name)]
    return row


def test_two_of_one_name_on_two_topics_are_two() -> None:
    """A subscription belongs to its topic, in a snapshot and in the list."""
    with serving(TWO) as (found, _):
        snapshot = PulsarObserver(found).snapshot()
        rows = read_subscriptions(found).rows
    assert [view.group for view in snapshot.groups] == [f"billing@{CLICKS}", f"billing@{ORDERS}", f"old@{ORDERS}"]
    assert sorted(it.topic for it in rows if it.subscription == "billing") == [CLICKS, ORDERS]


def test_a_backlog_is_in_entries_and_messages_are_not_guessed() -> None:
    """An entry is a batch: ten of them are no ten messages; no entry is no message."""
    with serving(TWO) as (found, _):
        snapshot = PulsarObserver(found).snapshot()
    share = snapshot.shares[f"billing@{ORDERS}", ORDERS, -1]
    assert (share.entries, share.lag) == (10, None)
    assert [(it.entries, it.lag) for key, it in snapshot.shares.items() if key[1] == CLICKS] == [(10, None), (0, 0)]
    assert snapshot.incomplete == ()


def test_members_are_the_connected_consumers() -> None:
    """One that is connected to several partitions is one; of a failover, only the active one gets entries."""
    reserve = consumer(consumerName="c2", address="/127.0.0.1:2")
    both = subscription(type="Failover", consumers=[consumer(), reserve], activeConsumerName="c1")
    with serving(FakeAdmin({CLICKS: partitioned(CLICKS, {0: topic(a=both), 1: topic(a=both)}, of=2)})) as (found, _):
        [view] = PulsarObserver(found).members().groups
    assert (view.protocol, view.state) == ("failover", "stable")
    assert {it.client_id: it.partitions for it in view.members} == {"c1": ((CLICKS, 0), (CLICKS, 1)), "c2": ()}


def test_what_is_not_told_is_not_zero() -> None:
    """A field that is missing, -1, a time of 0, a type that keeps no count: each is not known."""
    bare = only(FakeAdmin({ORDERS: topic(billing={})}))
    assert (bare.backlog_entries, bare.backlog_messages, bare.backlog_bytes, bare.oldest_seconds) == (
        None,
        None,
        None,
        None,
    )
    assert (bare.unacked_messages, bare.blocked, bare.consumers, bare.is_dead, bare.kind) == (
        None,
        None,
        None,
        None,
        None,
    )
    odd = only(
        FakeAdmin({ORDERS: topic(billing=subscription(backlogSize=-1, earliestMsgPublishTimeInBacklog=0, type="None"))})
    )
    assert (odd.backlog_bytes, odd.oldest_seconds, odd.kind) == (None, None, None)
    assert only(FakeAdmin({ORDERS: topic(billing=subscription())})).unacked_messages is None  # Exclusive keeps none
    assert only(TWO).unacked_messages == 95


def test_a_sum_without_a_partition_is_not_known() -> None:
    """Two of three partitions told: their sum would be too small, and the third may have the consumer."""
    missing = partitioned(CLICKS, {0: topic(a=subscription()), 2: topic(a=subscription())}, of=3)
    with serving(FakeAdmin({CLICKS: missing})) as (found, _):
        listed = read_subscriptions(found)
        dead = read_subscriptions(found, dead=True)
        snapshot = PulsarObserver(found).snapshot()
    [row] = listed.rows
    assert (row.backlog_entries, row.consumers, row.is_dead, row.partitions) == (None, None, None, 2)
    assert listed.incomplete == snapshot.incomplete == (f"1 of 3 partitions of {CLICKS} were not told.",)
    assert dead.rows == ()
    assert dead.incomplete[-1] == f"Whether a on {CLICKS} is dead cannot be told."


def test_dead_is_who_holds_a_backlog_with_nobody_there() -> None:
    """Not one without a backlog, not one that is no longer than its reader, not one with a consumer on any partition."""
    half = {0: topic(a=subscription(consumers=[consumer()])), 1: topic(a=subscription())}
    admin = FakeAdmin(
        {
            ORDERS: topic(
                left=subscription(), done=subscription(msgBacklog=0), reader=subscription(isDurable=False), busy=SHARED
            ),
            CLICKS: partitioned(CLICKS, half, of=2),
        }
    )
    with serving(admin) as (found, _):
        dead = read_subscriptions(found, dead=True)
    assert [(it.subscription, it.topic) for it in dead.rows] == [("left", ORDERS)]
    assert dead.incomplete == ()


def test_the_oldest_backlog_comes_first_and_an_unknown_one_before_it() -> None:
    """What is not known may be the worst; `top` keeps the first."""
    admin = FakeAdmin(
        {
            ORDERS: topic(
                new=subscription(earliestMsgPublishTimeInBacklog=PUBLISHED_MS + 50_000),
                old=subscription(),
                none=subscription(msgBacklog=0, earliestMsgPublishTimeInBacklog=0),
                unknown=subscription(earliestMsgPublishTimeInBacklog=None),
            )
        }
    )
    with serving(admin) as (found, _):
        assert [it.subscription for it in read_subscriptions(found).rows] == ["unknown", "old", "new", "none"]
        assert [it.subscription for it in read_subscriptions(found, top=2).rows] == ["unknown", "old"]
        ages = PulsarObserver(found).ages(PulsarObserver(found).snapshot(), [])
    assert ages[f"old@{ORDERS}", ORDERS, -1].low - ages[f"new@{ORDERS}", ORDERS, -1].low == pytest.approx(50, abs=1)
    assert ages[f"none@{ORDERS}", ORDERS, -1].low == 0
    assert (f"unknown@{ORDERS}", ORDERS, -1) not in ages


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"<html>", "not with JSON"),
        (b"[" * 100_000, "not with JSON"),
        ([], "cannot be read: the answer"),
        ({"subscriptions": {"a": {"msgBacklog": "ten"}}}, "subscriptions.a.msgBacklog"),
        ({"subscriptions": {"a": {"msgBacklog": True}}}, "subscriptions.a.msgBacklog"),
    ],
)
def test_a_topic_that_answers_badly_fails_alone(document: object, said: str) -> None:
    """It is named, and the others are read."""
    with serving(FakeAdmin({ORDERS: document, CLICKS: topic(a=subscription())})) as (found, _):
        snapshot = PulsarObserver(found).snapshot()
    assert [view.group for view in snapshot.groups] == [f"a@{CLICKS}"]
    [text] = snapshot.incomplete
    assert said in text


def test_a_partition_that_answers_badly_fails_alone() -> None:
    """The same within a partitioned topic."""
    with serving(FakeAdmin({CLICKS: partitioned(CLICKS, {0: topic(a=subscription()), 1: "x"}, of=2)})) as (found, _):
        snapshot = PulsarObserver(found).snapshot()
    assert [key[2] for key in snapshot.shares] == [0]
    assert len(snapshot.incomplete) == 1 and "partition 1" in snapshot.incomplete[0]


def test_an_absurd_number_is_not_known() -> None:
    """Beyond 64 bits nothing can count it."""
    assert only(FakeAdmin({ORDERS: topic(billing=subscription(msgBacklog=1 << 70))})).backlog_entries is None


def test_a_topic_named_like_a_partition_is_a_topic() -> None:
    """Unless there is a partitioned topic of the name before it; what is not persistent has no backlog."""
    extra = {
        "persistent/public/default": [
            "persistent://public/default/odd-partition-7", "non-persistent://public/default/live",
            f"persistent://{CLICKS}-partition-0", "persistent://public/default/a/b ?#%",
        ],
        "persistent/public/default/odd-partition-7/stats": topic(a=subscription()),
        "persistent/public/default/a%2Fb%20%3F%23%25/stats": topic(b=subscription()),
    }  # fmt: skip
    with serving(FakeAdmin({CLICKS: partitioned(CLICKS, {0: topic(a=subscription())}, of=1)}, extra=extra)) as (
        found,
        _,
    ):
        snapshot = PulsarObserver(found).snapshot()
        missing: list[str] = []
        ages = PulsarObserver(found).ages(snapshot, missing)
    assert (snapshot.incomplete, missing) == ((), [])
    assert ages.keys() == snapshot.shares.keys()
    assert sorted(key[1:] for key in snapshot.shares) == [
        ("public/default/a/b ?#%", -1), (CLICKS, 0), ("public/default/odd-partition-7", -1),
    ]  # fmt: skip


def test_groups_are_chosen_by_the_whole_name_or_by_the_subscriptions() -> None:
    """An unknown one is an error with similar names; where something was not told, it may be there."""
    with serving(TWO) as (found, _):
        observer = PulsarObserver(found)
        assert len(observer.snapshot(groups=["billing"]).groups) == 2
        assert [view.group for view in observer.snapshot(groups=[f"billing@{ORDERS}"]).groups] == [f"billing@{ORDERS}"]
        with pytest.raises(UnknownGroupError, match="no subscription 'biling'") as raised:
            observer.snapshot(groups=["biling"])
        assert "billing" in (raised.value.hint or "")
        assert observer.snapshot(groups=["biling"], all_known=False).unknown == ("biling",)
    with serving(FakeAdmin({ORDERS: topic(a=subscription()), CLICKS: b"broken"})) as (found, _):
        assert PulsarObserver(found).snapshot(groups=["biling"]).groups == ()


def test_messages_are_counted_only_when_asked_for() -> None:
    """By the broker's own scan; one that was broken off is not known."""
    path = "persistent/public/default/orders/subscription/{}/analyzeBacklog"
    scan = {"entries": 10, "messages": 95, "aborted": False}
    extra = {path.format("billing"): scan, path.format("cut"): {**scan, "aborted": True}}
    admin = FakeAdmin({ORDERS: topic(billing=SHARED, cut=SHARED, done=subscription(msgBacklog=0))}, extra=extra)
    with serving(admin) as (found, script):
        read_subscriptions(found)
        assert not [it for it in script.requests if "analyzeBacklog" in it[0]]
        listed = read_subscriptions(found, count_messages=True)
    assert {it.subscription: it.backlog_messages for it in listed.rows} == {"billing": 95, "cut": None, "done": 0}
    assert listed.incomplete == (f"The messages of cut on {ORDERS} were not counted to the end.",)


def test_the_token_goes_to_configured_addresses_only() -> None:
    """A broker redirects to the one that has the topic: followed if it is in the settings, refused with a hint if not."""
    with scripted(Script(answer=TWO)) as other, scripted(Script(status=307)) as first:
        first.headers = {"Location": f"{other.url}/admin/v2/tenants"}
        with pytest.raises(SourceUnreachableError, match=r"redirects to http://127\.0\.0\.1") as raised:
            PulsarObserver(cluster(first.url, token="hunter22hunter22")).cluster_id()
        assert "pulsar.broker_urls" in (raised.value.hint or "")
        assert other.requests == []
        PulsarObserver(cluster(first.url, token="hunter22hunter22", broker_urls=[other.url])).cluster_id()
        assert [headers["Authorization"] for _, _, headers in other.requests] == ["Bearer hunter22hunter22"]


def test_a_redirect_in_a_circle_ends() -> None:
    """Two brokers that each say the other has it."""
    with scripted(Script(status=307)) as first:
        first.headers = {"Location": f"{first.url}/admin/v2/clusters"}
        with pytest.raises(SourceUnreachableError, match="status 307"):
            PulsarObserver(cluster(first.url)).cluster_id()


@pytest.mark.parametrize(
    ("status", "said"), [(401, "status 401"), (403, "status 403"), (500, "status 500"), (404, "has no clusters")]
)
def test_a_refusal_says_its_status(status: int, said: str) -> None:
    """Without the token, and with what to look at."""
    with (
        scripted(Script(status=status, body=b"{}")) as script,
        pytest.raises(SourceUnreachableError, match=said) as raised,
    ):
        PulsarObserver(cluster(script.url, token="hunter22hunter22")).cluster_id()
    assert "hunter22" not in str(raised.value) + str(raised.value.hint)


def test_a_slow_admin_ends_with_the_deadline() -> None:
    """In words, not in a traceback."""
    with (
        scripted(Script(delay_seconds=0.5)) as script,
        pytest.raises(SourceUnreachableError, match="no answer in time"),
    ):
        PulsarObserver(cluster(script.url), seconds=0.1).cluster_id()


def test_a_list_that_is_none_is_said() -> None:
    """A proxy's page in JSON is no list of tenants."""
    admin = FakeAdmin({}, extra={"tenants": {"a": 1}})
    with serving(admin) as (found, _), pytest.raises(SourceUnreachableError, match="no list of names"):
        PulsarObserver(found).snapshot()


def test_a_namespace_that_cannot_be_listed_is_named_and_the_others_are_read() -> None:
    """A token may not see all of them; if it sees none, that is an error."""
    spaces = {"namespaces/public": ["public/default", "public/closed"]}
    with serving(FakeAdmin({ORDERS: topic(billing=subscription())}, extra=spaces)) as (found, _):
        read = survey(PulsarAdmin(found))
    assert [it.subscription for it in read.parts] == ["billing"]
    assert len(read.incomplete) == 1 and "persistent/public/closed" in read.incomplete[0]
    nothing = FakeAdmin({}, extra={"namespaces/public": ["public/closed"]})
    with serving(nothing) as (found, _), pytest.raises(SourceUnreachableError, match="persistent/public/closed"):
        survey(PulsarAdmin(found))
    with serving(nothing, namespaces=["public/other"]) as (found, _), pytest.raises(SourceUnreachableError):
        survey(PulsarAdmin(found), namespaces=found.pulsar.namespaces)


def test_the_brokers_own_reader_is_nobodys_subscription() -> None:
    """`__compaction`, of a topic that a 4.0.7 has compacted: nobody is connected until it does so again."""
    own = subscription(isDurable=True, consumers=[], msgBacklog=5)
    with serving(FakeAdmin({ORDERS: topic(billing=subscription(), __compaction=own)})) as (found, _):
        assert [it.subscription for it in read_subscriptions(found, dead=True).rows] == ["billing"]
        assert [it.group for it in PulsarObserver(found).snapshot().groups] == [f"billing@{ORDERS}"]


def test_only_the_namespaces_of_the_settings_are_read() -> None:
    """A token that may not list tenants is enough then."""
    with serving(TWO, namespaces=["public/default"]) as (found, script):
        assert len(PulsarObserver(found).snapshot().groups) == 3
    assert not [path for path, _, _ in script.requests if path.endswith(("tenants", "namespaces/public"))]


def settings(folder: Path, url: str) -> Path:
    """A settings file."""
    file = folder / "workbench.toml"
    file.write_text(
        f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{url}"\ntoken = "hunter22hunter22"\n'
    )
    return file


def test_the_api_ranks_by_entries_where_messages_are_not_known(tmp_path: Path) -> None:
    """The largest first; a Kafka's rows have no entries."""
    admin = FakeAdmin(
        {ORDERS: topic(small=subscription(), large=subscription(msgBacklog=500), none=subscription(msgBacklog=0))}
    )
    with scripted(Script(answer=admin)) as script:
        found = api.snapshot(cluster="events", top=5, config=settings(tmp_path, script.url))
    assert found.ranked is not None
    assert [(row["group"].partition("@")[0], row["lag_entries"], row["lag_messages"]) for row in found.ranked] == [
        ("large", 500, None), ("small", 10, None), ("none", 0, 0),
    ]  # fmt: skip


def test_the_command_lists_and_masks(tmp_path: Path) -> None:
    """On the screen and in JSON; a name cannot control the terminal; what is missing is exit code 4."""
    admin = FakeAdmin({ORDERS: topic(**{"a \x1b[2J": SHARED}), CLICKS: b"broken"})
    with scripted(Script(answer=admin)) as script:
        file = settings(tmp_path, script.url)
        shown = CliRunner().invoke(
            command, ["subscriptions", "--cluster", "events", "--config", str(file)], standalone_mode=False
        )
        assert shown.exception is None
        assert shown.return_value == 4
        assert "hunter22" not in shown.output and "\x1b[2J" not in shown.output
        assert f"a \\x1b[2J ← {ORDERS}" in shown.output
        found = CliRunner().invoke(
            command, ["subscriptions", "--cluster", "events", "--json", "--config", str(file)], standalone_mode=False
        )
    document = json.loads(found.stdout)
    assert document["subscriptions"][0]["backlog_entries"] == 10
    assert len(document["incomplete"]) == 1


def test_the_doctor_asks_a_pulsar_too(tmp_path: Path) -> None:
    """It answers, or is named as unreachable."""
    with scripted(Script(answer=TWO)) as script:
        file = settings(tmp_path, script.url)
        shown = CliRunner().invoke(doctor, ["--config", str(file), "--json"], standalone_mode=False)
    [found] = [it for it in json.loads(shown.stdout) if it["check"] == "events: pulsar"]
    assert (found["ok"], found["what"]) == (True, "cluster standalone, version not told")
    gone = CliRunner().invoke(doctor, ["--config", str(file), "--json"], standalone_mode=False)
    assert gone.return_value == 5


def test_what_does_not_work_yet_says_so() -> None:
    """Replays as on Kafka, recordings, and letters without an address; and a cluster that is no Pulsar."""
    found = cluster("http://127.0.0.1:9")
    with pytest.raises(UsageError, match="not work on a Pulsar yet"):
        gateway_of(found).group("billing")
    with pytest.raises(UsageError, match=r"has no pulsar\.service_url"):
        system_of(found).letters(found, "t")
    with pytest.raises(UsageError, match="cannot be recorded over time yet"):
        system_of(found).observer(found).rounds()
    with pytest.raises(UsageError, match="is no Pulsar"):
        read_subscriptions(Cluster(name="prod", bootstrap="b:9092"))
    with pytest.raises(UsageError, match=r"has no pulsar\.admin_url"):
        system_of(Cluster(name="events", system="pulsar"))


@pytest.mark.parametrize(
    ("pulsar", "field"),
    [
        ({"admin_url": "events:8080"}, "admin_url"),
        ({"admin_url": "http://a", "broker_urls": ["x"]}, "broker_urls"),
        ({"service_url": "http://a:6650"}, "service_url"),
        ({"namespaces": ["public"]}, "namespaces"),
        ({"namespaces": ["../../x/y"]}, "namespaces"),
    ],
)
def test_wrong_settings_are_named(pulsar: dict[str, object], field: str) -> None:
    """By their field, without their value."""
    with pytest.raises(UsageError, match=field):
        checked_cluster({"name": "events", "system": "pulsar", "pulsar": pulsar})


def test_the_token_is_a_secret_of_the_cluster() -> None:
    """So are passwords in its URLs; and it is in no repr."""
    found = cluster("http://u:geheim42@h:8080", token="hunter22hunter22", broker_urls=["http://u:secret43@h:8081"])
    assert {"hunter22hunter22", "geheim42", "secret43"} <= found.secrets()
    assert "hunter22" not in repr(found) and "geheim42" not in repr(found)


def test_where_a_redrive_plan_is_is_no_group_of_consumers() -> None:
    """Its subscription has the kind that such a group of Kafka has; others on the topic have theirs."""
    answers = FakeAdmin({ORDERS: topic(billing=subscription(), **{f"{REDRIVE_PREFIX}1": subscription()})})
    with serving(answers) as (found, _):
        kinds = [it.protocol for it in PulsarObserver(found).snapshot().groups]
    assert kinds == ["exclusive", REDRIVE]
