"""A real standalone: what is listed is what was produced and what the broker's own metrics say; a planned split is a split."""

from __future__ import annotations

import itertools
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.pulsar.pages import cluster
from tests.waiting import wait_for
from workbench.lab.pulsar import PulsarStandalone
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.broker_conf import read_configs
from workbench.pulsar.bundle_split import Bundle, TopicLoad, hash_of, plan_split
from workbench.pulsar.pulsar_observer import PulsarObserver
from workbench.pulsar.risky_settings import BrokerSettings, Soundness, check_config, parse_version
from workbench.pulsar.subscription_survey import survey
from workbench.pulsar.subscriptions import PulsarSubscription, read_subscriptions
from workbench.settings import Cluster

if TYPE_CHECKING:
    import pulsar

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SINGLE, PARTS, QUIET = "public/default/single", "public/default/parts", "public/default/quiet"


@pytest.fixture
def events(standalone: PulsarStandalone) -> Cluster:
    """Its settings."""
    return cluster(standalone.admin_url)


def admin(standalone: PulsarStandalone, method: str, path: str, **options: Any) -> requests.Response:
    """One request to the admin, without our code."""
    answer = requests.request(method, f"{standalone.admin_url}/admin/v2/{path}", timeout=30, **options)
    assert answer.status_code < 300, (path, answer.status_code, answer.text)
    return answer


def produce(client: pulsar.Client, topic: str, count: int, *, batch: int) -> None:
    """So many messages; with `batch` 1, each is an entry."""
    import pulsar

    producer = client.create_producer(
        f"persistent://{topic}",
        batching_enabled=batch > 1,
        batching_max_messages=max(2, batch),
        batching_max_publish_delay_ms=10_000,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    )
    for number in range(count):
        producer.send_async(str(number).encode(), lambda *_: None)
    producer.flush()
    producer.close()


@pytest.fixture(scope="module")
def filled(standalone: PulsarStandalone, client: pulsar.Client) -> dict[str, pulsar.Consumer]:
    """Topics with and without partitions, batches and readers; the consumers that stay connected."""
    import pulsar

    admin(standalone, "PUT", f"persistent/{PARTS}/partitions", json=3)
    single, parts, quiet = (f"persistent://{it}" for it in (SINGLE, PARTS, QUIET))
    earliest = pulsar.InitialPosition.Earliest
    shared = client.subscribe(
        single, "billing", consumer_type=pulsar.ConsumerType.Shared, consumer_name="c1", initial_position=earliest
    )
    kept = {
        "billing": shared,
        "active": client.subscribe(parts, "billing", consumer_type=pulsar.ConsumerType.Failover, consumer_name="c2"),
        "alone": client.subscribe(quiet, "alone", consumer_name="c3", initial_position=earliest),
    }
    for topic in (single, parts):
        client.subscribe(topic, "left", initial_position=earliest).close()
    produce(client, SINGLE, 30, batch=1)
    produce(client, PARTS, 95, batch=10)
    produce(client, QUIET, 5, batch=1)
    for _ in range(10):
        shared.acknowledge(shared.receive(10_000))
    for _ in range(5):
        kept["alone"].acknowledge(kept["alone"].receive(10_000))
    return kept


def row(found: Cluster, name: str, topic: str, **options: Any) -> PulsarSubscription:
    """The row of a subscription."""
    [it] = [it for it in read_subscriptions(found, **options).rows if (it.subscription, it.topic) == (name, topic)]
    return it


def test_what_is_listed_is_what_was_produced(events: Cluster, filled: object) -> None:
    """30 single messages of which 10 are done; 95 messages in batches of 10 over three partitions; none."""
    wait_for(lambda: row(events, "billing", SINGLE).backlog_entries == 20)
    wait_for(lambda: row(events, "alone", QUIET).backlog_entries == 0)
    billing = row(events, "billing", SINGLE, count_messages=True)
    assert (billing.backlog_messages, billing.unacked_messages, billing.consumers, billing.kind) == (
        20,
        20,
        1,
        "shared",
    )
    left = row(events, "left", PARTS, count_messages=True)
    assert left.backlog_messages == 95
    assert left.backlog_entries is not None and left.backlog_entries < 95
    assert (left.partitions, left.consumers, left.is_dead) == (3, 0, True)
    alone = row(events, "alone", QUIET)
    assert (alone.backlog_messages, alone.unacked_messages, alone.oldest_seconds, alone.is_dead) == (
        0,
        None,
        0.0,
        False,
    )
    assert left.oldest_seconds is not None and 0 <= left.oldest_seconds < 600
    dead = read_subscriptions(events, dead=True)
    assert {(it.subscription, it.topic) for it in dead.rows} == {("left", SINGLE), ("left", PARTS)}
    assert dead.incomplete == ()


def test_a_failover_keeps_no_count_of_unacked_messages(
    standalone: PulsarStandalone, events: Cluster, filled: dict[str, pulsar.Consumer]
) -> None:
    """One was received and not acknowledged, and the broker says 0: that is not known."""
    filled["active"].receive(10_000)
    stats = admin(standalone, "GET", f"persistent/{PARTS}/partitioned-stats").json()["subscriptions"]["billing"]
    assert stats["unackedMessages"] == 0
    assert row(events, "billing", PARTS).unacked_messages is None
    [view] = PulsarObserver(events).snapshot(groups=[f"billing@{PARTS}"]).groups
    assert (view.protocol, view.state) == ("failover", "stable")
    assert [(it.client_id, it.partitions) for it in view.members] == [("c2", ((PARTS, 0), (PARTS, 1), (PARTS, 2)))]


def test_entries_are_those_of_the_brokers_metrics(
    standalone: PulsarStandalone, events: Cluster, filled: object
) -> None:
    """Another way to the same numbers: `pulsar_subscription_back_log`, partition by partition."""
    page = requests.get(f"{standalone.admin_url}/metrics/", timeout=30).text
    lines = re.findall(r"^pulsar_subscription_back_log\{(.*)\} ([\d.E+]+)$", page, flags=re.MULTILINE)
    told = {}
    for labels, value in lines:
        names = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        told[names["topic"].removeprefix("persistent://"), names["subscription"]] = int(float(value))
    found = survey(PulsarAdmin(events))
    ours = {
        (str(it.topic) + (f"-partition-{it.partition}" if it.partition >= 0 else ""), it.subscription): it.entries
        for it in found.parts
    }
    assert found.incomplete == ()
    assert len(ours) == 9
    assert {key: told[key] for key in ours} == ours


def test_topics_that_are_not_loaded_are_told_all_the_same(
    standalone: PulsarStandalone, events: Cluster, filled: object
) -> None:
    """After an unload, which closes all of them, the first question finds the same backlogs."""
    before = {(it.topic, it.subscription): it.backlog_entries for it in read_subscriptions(events).rows}
    admin(standalone, "PUT", "namespaces/public/default/unload")
    found = read_subscriptions(events)
    assert found.incomplete == ()
    assert {(it.topic, it.subscription): it.backlog_entries for it in found.rows} == before


def test_a_thousand_subscriptions_equal_the_admins(standalone: PulsarStandalone, client: pulsar.Client) -> None:
    """100 topics with ten subscriptions each, every one asked for by itself, too."""
    admin(standalone, "PUT", "namespaces/public/many")
    topics = [f"public/many/t{number:03}" for number in range(100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda it: admin(standalone, "PUT", f"persistent/{it}"), topics))
        list(
            pool.map(
                lambda it: admin(standalone, "PUT", f"persistent/{it[0]}/subscription/s{it[1]}", json="earliest"),
                itertools.product(topics, range(10)),
            )
        )
    for number, topic in enumerate(topics):
        produce(client, topic, number % 7, batch=1)
    only = cluster(standalone.admin_url, namespaces=["public/many"])
    begun = time.monotonic()
    found = read_subscriptions(only, seconds=60)
    print(f"{len(found.rows):,} subscriptions in {time.monotonic() - begun:.1f} s")
    snapshot = PulsarObserver(only, seconds=60).snapshot()
    assert (found.incomplete, snapshot.incomplete, len(snapshot.groups)) == ((), (), 1000)
    theirs = {}
    for topic in topics:
        stats = admin(standalone, "GET", f"persistent/{topic}/stats?getPreciseBacklog=true").json()
        theirs |= {(topic, name): it["msgBacklog"] for name, it in stats["subscriptions"].items()}
    assert {(it.topic, it.subscription): it.backlog_entries for it in found.rows} == theirs
    assert set(theirs.values()) == set(range(7))


def test_a_planned_split_parts_the_hot_topics(standalone: PulsarStandalone, client: pulsar.Client) -> None:
    """Hashes are the broker's; two hot topics on one half of a bundle end in two bundles."""
    admin(
        standalone,
        "PUT",
        "namespaces/public/hot",
        json={"bundles": {"numBundles": 1, "boundaries": ["0x00000000", "0xffffffff"]}},
    )
    names = [f"persistent://public/hot/t{number}" for number in range(40)]
    upper = sorted((it for it in names if hash_of(it) > 0x90000000), key=hash_of)
    hot = {upper[1], upper[-2]}
    for name in [*upper, names[0]]:
        client.create_producer(name).close()
    [bundle] = bundles(standalone)
    told = admin(standalone, "GET", f"namespaces/public/hot/{bundle}/topicHashPositions").json()["topicHashPositions"]
    assert told == {name: hash_of(name) for name in told}
    assert hot <= told.keys()
    loads = [TopicLoad(topic=name, position=hash_of(name), load=100.0 if name in hot else 1.0) for name in told]
    plan = plan_split(bundle, loads)
    assert plan.by_range.largest > 200 > plan.best.largest
    admin(
        standalone,
        "PUT",
        f"namespaces/public/hot/{bundle}/split?unload=true&splitAlgorithmName=specified_positions_divide",
        json=list(plan.best.cuts),
    )
    wait_for(lambda: len(bundles(standalone)) == 2)
    assert bundles(standalone) == [side.bundle for side in plan.best.sides]
    assert {it for it in bundles(standalone) for name in hot if it.holds(hash_of(name))} == set(bundles(standalone))


def bundles(standalone: PulsarStandalone) -> list[Bundle]:
    """Of the namespace `public/hot`, as the admin tells them."""
    edges = admin(standalone, "GET", "namespaces/public/hot/bundles").json()["boundaries"]
    return [Bundle.parse(f"{low}_{high}") for low, high in itertools.pairwise(edges)]


def test_the_settings_of_a_running_broker_are_judged(standalone: PulsarStandalone, tmp_path: Path) -> None:
    """As its admin prints them: nothing is unknown but what depends on the load."""
    file = tmp_path / "runtime.json"
    file.write_text(admin(standalone, "GET", "brokers/configuration/runtime").text)
    version = parse_version(admin(standalone, "GET", "brokers/version").text)
    found = {
        it.setting: it.soundness for it in check_config(BrokerSettings(values=read_configs([file]), version=version))
    }
    assert version == (4, 0, 7)
    assert [name for name, it in found.items() if it is Soundness.UNKNOWN] == [
        "managedLedgerDefaultMarkDeleteRateLimit"
    ]
    assert found["supportedNamespaceBundleSplitAlgorithms"] is Soundness.FINE
