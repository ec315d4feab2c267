"""Logins, certificates and rights on a secured cluster: each is named, and what may not be seen is never absent."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.collect.test_samples_from_prometheus import LAG, body
from tests.secured.conftest import Filled, commit, document, filled, fresh, run, settings_for, source, took
from tests.servers import Script, scripted
from tests.three_brokers.access import PREFIX, READER
from tests.three_brokers.secured import SecuredLab
from workbench.collect import capture_in_memory
from workbench.errors import ConfigError, ExitCode, NoSeriesError, SourceUnreachableError, UnknownGroupError
from workbench.queues.snapshot_views import NOT_PERMITTED
from workbench.thresholds import Thresholds
from workbench.window import Window

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def sixty(secured: SecuredLab) -> Filled:
    """Groups of which `reader` may describe two thirds."""
    names = [fresh(f"{PREFIX}seen" if number % 3 else "hidden") for number in range(60)]
    return filled(secured, *names)


def hidden(groups: Any) -> set[str]:
    """Those that `reader` may not describe."""
    return {name for name in groups if not name.startswith(PREFIX)}


def named_within(seconds: float, cluster: Any) -> SourceUnreachableError:
    """The error of a snapshot; the fastest of three tries counts, for other tests run on the same cores."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(SourceUnreachableError) as caught:
            cluster.snapshot()
        took.append(time.monotonic() - began)
        if took[-1] < seconds:
            return caught.value
    raise AssertionError(f"named after {took} s")


def test_a_wrong_password_names_principal_mechanism_and_broker(secured: SecuredLab) -> None:
    """Within three seconds, although the client would go on trying."""
    cluster = source(secured, sasl_password="not the password")
    error = named_within(3, cluster)
    assert "refuses the login of 'oncall' with SCRAM-SHA-512" in error.message
    assert any(broker.address in error.message for broker in secured.brokers)
    assert "not the password" not in str(error)


def test_another_mechanism_than_the_brokers_is_named(secured: SecuredLab) -> None:
    """The broker says which it has."""
    with pytest.raises(SourceUnreachableError, match="refuses the login of 'oncall' with PLAIN"):
        source(secured, sasl_mechanism="PLAIN").snapshot()


def test_another_authority_than_the_brokers_is_named(secured: SecuredLab) -> None:
    """Within three seconds, with the broker and the property to look at."""
    cluster = source(secured, ssl_ca_location=str(secured.wrong_ca()))
    error = named_within(3, cluster)
    assert "certificate of Kafka's broker 127.0.0.1:" in error.message
    assert "self-signed certificate" in error.message or "local issuer" in error.message
    assert "ssl.ca.location" in (error.hint or "")


def test_the_commands_say_so_too(secured: SecuredLab, tmp_path: Path) -> None:
    """Exit code 5 for a refusal, 2 for a misspelt property; no secret in the output."""
    shown = run(secured, settings_for(secured, tmp_path), "snapshot", "--cluster", "mine", password="not the password")
    assert shown.returncode == ExitCode.SOURCE
    assert "refuses the login of 'oncall' with SCRAM-SHA-512" in shown.stderr
    assert "not the password" not in shown.stdout + shown.stderr
    misspelt = settings_for(secured, tmp_path, sasl_usernam="oncall")
    shown = run(secured, misspelt, "snapshot", "--cluster", "mine")
    assert shown.returncode == ExitCode.USAGE
    assert "'sasl.usernam'" in shown.stderr
    assert "'sasl.username'" in shown.stderr


def test_a_misspelt_property_is_no_unreachable_broker(secured: SecuredLab) -> None:
    """The settings are wrong, and the nearest name is suggested."""
    with pytest.raises(ConfigError) as caught:
        source(secured, ssl_ca_locaton="x").snapshot()
    assert "'ssl.ca.location'" in (caught.value.hint or "")


@pytest.mark.slow
def test_an_expired_certificate_is_named(whole: SecuredLab) -> None:
    """Of all brokers: an error within three seconds. Of one: the others answer, and it is named with what is missing."""
    groups = [fresh(f"{PREFIX}exp") for _ in range(6)]
    made = filled(whole, *groups)
    first = whole.brokers[0]
    try:
        whole.expire(first)
        found, seconds = took(lambda: source(whole).snapshot())
        text = " ".join(found.incomplete)
        assert f"broker 1 ({first.address}): The certificate" in text
        assert "expired" in text
        assert seconds < 8
        assert set(found.commits) >= {
            (group, made.topic, part)
            for group in groups
            for part in range(6)
            if any(view.group == group and view.coordinator != 1 for view in found.groups)
        }
        whole.expire(*whole.brokers[1:])
        began = time.monotonic()
        with pytest.raises(SourceUnreachableError, match="certificate has expired"):
            source(whole).snapshot()
        assert time.monotonic() - began < 3
    finally:
        whole.renew(*whole.brokers)


def test_a_third_of_the_groups_may_not_be_described(secured: SecuredLab, sixty: Filled) -> None:
    """All are listed: forty with their lag, twenty as not permitted with principal, resource and operation; none has 0 members."""
    found = source(secured, READER).snapshot()
    views = {view.group: view for view in found.groups if view.group in sixty.commits}
    assert set(views) == set(sixty.commits)
    concealed = hidden(sixty.commits)
    assert len(concealed) == 20
    assert {name for name, view in views.items() if view.state == NOT_PERMITTED} == concealed
    assert all((views[name].member_count is None) == (name in concealed) for name in views)
    for name in concealed:
        assert f"group {name!r}: not permitted: 'reader' lacks DESCRIBE on group {name!r}" in found.incomplete
    for name, offsets in sixty.commits.items():
        lags = {part: found.lag(name, sixty.topic, part) for part in offsets}
        expected = {part: None if name in concealed else sixty.records - at for part, at in offsets.items()}
        assert lags == expected
    samples = found.to_samples("c")
    counted = {
        row["group"]
        for row in samples.to_pylist()
        if row["signal"] == "group_members" and row["group"] in sixty.commits
    }
    assert counted == set(sixty.commits) - concealed


def test_the_command_lists_them_and_ends_with_4(secured: SecuredLab, sixty: Filled, tmp_path: Path) -> None:
    """As text and as JSON."""
    settings = settings_for(secured, tmp_path, READER)
    shown = run(secured, settings, "snapshot", "--cluster", "mine", "--json", user=READER)
    assert shown.returncode == ExitCode.EVIDENCE, shown.stderr
    groups = {row["group"]: row for row in document(shown)["groups"]}
    for name in sixty.commits:
        assert groups[name]["state"] == (NOT_PERMITTED if name in hidden(sixty.commits) else "empty")
        assert groups[name]["members"] == (None if name in hidden(sixty.commits) else 0)
        assert groups[name]["kind"] == "classic"  # from the brokers' lists, also where it may not be described
    one = min(hidden(sixty.commits))
    shown = run(secured, settings, "snapshot", "--cluster", "mine", "--group", one, user=READER)
    assert shown.returncode == ExitCode.EVIDENCE
    assert f"{one}  not permitted" in shown.stdout
    assert f"'reader' lacks DESCRIBE on group '{one}'" in shown.stderr


def test_without_the_right_to_describe_the_cluster_the_list_is_not_complete(secured: SecuredLab, sixty: Filled) -> None:
    """Brokers then leave out what may not be described, without a word; so we say it."""
    right = ("DESCRIBE", "BROKER", "kafka-cluster")
    secured.forbid(READER, right)
    try:
        time.sleep(1)
        found = source(secured, READER).snapshot()
    finally:
        secured.allow(READER, right)
    assert not hidden(sixty.commits) & {view.group for view in found.groups}
    assert any("'reader' lacks DESCRIBE on the cluster" in text for text in found.incomplete)
    # A group that is named is asked for, and is not taken for one that does not exist.
    one = min(hidden(sixty.commits))
    found = source(secured, READER).snapshot(groups=[one])
    assert [view.state for view in found.groups] == [NOT_PERMITTED]
    assert found.unknown == ()


def test_a_topic_that_may_not_be_described_is_named_once(secured: SecuredLab) -> None:
    """Not an error for each of its partitions."""
    group, topic = fresh(f"{PREFIX}mixed"), fresh("secret")
    secured.create_topic(topic, 6)
    commit(secured, group, topic, dict.fromkeys(range(6), 0))
    found = source(secured, READER).snapshot(groups=[group])
    # The broker leaves such commits out; with the right to describe the group alone there is nothing else to see.
    assert not found.commits
    assert found.groups[0].state == "empty"


def test_an_unknown_group_is_still_unknown(secured: SecuredLab, sixty: Filled) -> None:
    """To somebody who may see all of them."""
    near = max(sixty.commits)[:-1]
    with pytest.raises(UnknownGroupError) as caught:
        source(secured).snapshot(groups=[near])
    assert near in (caught.value.hint or "")


def test_a_group_that_may_not_be_seen_does_not_keep_prometheus_from_being_asked(
    secured: SecuredLab, sixty: Filled
) -> None:
    """Its lag comes from there, and the capture says what Kafka did not tell."""
    one = min(hidden(sixty.commits))
    now = time.time() - 1
    window = Window.ending(datetime.now(UTC), length=timedelta(minutes=1), baseline=timedelta(minutes=1))
    with scripted(Script(body=body(({**LAG, "consumergroup": one}, [[now, "7"]])))) as server:
        cluster = secured.cluster(READER, prometheus=server.url, profiles=["kafka_exporter"])
        capture = capture_in_memory.collect(cluster, window, thresholds=Thresholds(), groups=[one])
        assert capture.samples.num_rows
        assert capture.info.incomplete == [f"group {one!r}: not permitted: 'reader' lacks DESCRIBE on group {one!r}"]
        assert [row["state"] for row in capture.groups.to_pylist()] == [NOT_PERMITTED]
        server.body = body()
        with pytest.raises(NoSeriesError):
            capture_in_memory.collect(cluster, window, thresholds=Thresholds(), groups=[one])


def test_a_triage_asks_kafka_for_its_group_only(secured: SecuredLab, sixty: Filled) -> None:
    """One description, no list of groups, no offset: by the client's own count of requests."""
    seen: dict[str, dict[str, Any]] = {}

    def count(text: str) -> None:
        seen.update(json.loads(text)["brokers"])

    cluster = source(secured)
    cluster.properties = {**cluster.properties, "statistics.interval.ms": 50, "stats_cb": count}
    found = cluster.members(groups=[max(sixty.commits)])
    assert [view.state for view in found.groups] == ["empty"]
    assert cluster.requests == 1
    for _ in range(20):
        cluster.connect().poll(0.1)

    def total(kind: str) -> int:
        return sum(broker.get("req", {}).get(kind, 0) for broker in seen.values())

    assert total("ListGroups") == 0
    assert total("ListOffsets") == 0
    assert total("FindCoordinator") <= 2
