"""A capture of a Pulsar: what the admin answered is judged again, elsewhere and later, to the same bytes; without its secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import check, run_here
from tests.pulsar.pages import FakeAdmin, consumer, partitioned, subscription, topic
from tests.servers import Script, scripted
from workbench.errors import DamagedCaptureError
from workbench.pulsar.recorded_answers import AdminAnswers, scrubbed

SECRET = "tok-3e2f9a7c51"
BUSY = topic(
    billing=subscription(
        type="Shared",
        unackedMessages=95,
        blockedSubscriptionOnUnackedMsgs=True,
        subscriptionProperties={"password": "in-a-property"},
        consumers=[consumer(metadata={"api-key": "in-metadata"}, consumerName=f"c-{SECRET}")],
    ),
    dead=subscription(),
)
TOPICS = {"public/default/orders": BUSY}


@pytest.fixture
def mq(tmp_path: Path) -> Path:
    """A folder for settings and captures."""
    return tmp_path


def settings(folder: Path, url: str) -> None:
    """Of a cluster with a token."""
    (folder / "workbench.toml").write_text(
        f'[clusters.mq]\nsystem = "pulsar"\ntimeout_seconds = 5\npulsar.admin_url = "{url}"\npulsar.token = "{SECRET}"\n'
        '[clusters.mq.groups."billing@*"]\ntime_lag_objective = "77s"\n',
        encoding="utf-8",
    )


@pytest.mark.parametrize("command", ["triage", "capture"])
def test_a_capture_is_judged_to_the_same_bytes(mq: Path, tmp_path: Path, command: str) -> None:
    """Of both looks, with the expectations of then; nobody is asked; a group of it can be chosen."""
    with scripted(Script(answer=FakeAdmin(TOPICS))) as server:
        settings(mq, server.url)
        words = ["triage", "--cluster", "mq", "--observe", "1ms", "--json"]
        if command == "triage":
            live = run_here(*words, "--save", "kept", cwd=mq)
        else:
            done = run_here("capture", "--cluster", "mq", "--output", "kept", cwd=mq)
            assert done.returncode in (0, 4), done.stderr
            live = run_here("triage", "--capture", "kept", "--json", cwd=mq)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").symlink_to(mq / "kept")
    again = run_here("triage", "--capture", str(mq / "kept"), "--json", cwd=elsewhere)
    assert again.stdout == live.stdout
    assert again.returncode == live.returncode
    found = {it["group"]: it["verdict"] for it in json.loads(again.stdout)["findings"]}
    assert found["billing@public/default/orders"] == "blocked_on_unacked"
    assert found["dead@public/default/orders"] == "dead_subscription"
    one = run_here("triage", "--capture", str(mq / "kept"), "--group", "dead", "--json", cwd=elsewhere)
    assert [it["group"] for it in json.loads(one.stdout)["findings"]] == ["dead@public/default/orders"]
    check(run_here("triage", "--capture", str(mq / "kept"), "--since", "1h", cwd=elsewhere), 2, "has two looks")
    check(
        run_here("triage", "--capture", str(mq / "kept"), "--group", "none", cwd=elsewhere), 2, "no subscription 'none'"
    )


def test_a_capture_has_no_secrets(mq: Path) -> None:
    """Neither the token, wherever it stands, nor what people put into properties."""
    with scripted(Script(answer=FakeAdmin(TOPICS))) as server:
        settings(mq, server.url)
        run_here("capture", "--cluster", "mq", "--output", "kept", cwd=mq)
    found = AdminAnswers.unpacked((mq / "kept" / "answers.json.zz").read_bytes())
    assert len(found.answers) > 6
    for path in (mq / "kept").iterdir():
        text = path.read_bytes()
        for secret in (SECRET, "in-a-property", "in-metadata"):
            assert secret.encode() not in text
            assert secret not in found.model_dump_json()


def test_of_a_brokers_settings_a_capture_has_only_what_is_judged(mq: Path) -> None:
    """A broker tells all of them, with the passwords and tokens of its own; and the same is judged without the rest."""
    running = {
        "ttlDurationDefaultInSeconds": "60",
        "brokerClientAuthenticationParameters": "token:of-the-broker",
        "tlsTrustStorePassword": "of-the-store",
        "s3ManagedLedgerOffloadCredentialId": "of-the-bucket",
    }
    applied = {"persistent/public/default/orders/messageTTL": None, "brokers/configuration/runtime": running}
    with scripted(
        Script(answer=FakeAdmin(TOPICS, extra={**applied, "namespaces/public/default/messageTTL": b""}))
    ) as server:
        settings(mq, server.url)
        live = run_here("triage", "--cluster", "mq", "--observe", "1ms", "--json", "--save", "kept", cwd=mq)
    content = AdminAnswers.unpacked((mq / "kept" / "answers.json.zz").read_bytes()).model_dump_json()
    assert '"ttlDurationDefaultInSeconds":"60"' in content
    assert not [it for it in ("of-the-broker", "of-the-store", "of-the-bucket") if it in content]
    assert run_here("triage", "--capture", "kept", "--json", cwd=mq).stdout == live.stdout


def test_what_could_not_be_read_is_missing_again(mq: Path) -> None:
    """A topic that answers with an error is named in both."""
    pages: dict[str, Any] = {**TOPICS, "public/default/gone": {"subscriptions": 7}}
    with scripted(Script(answer=FakeAdmin(pages))) as server:
        settings(mq, server.url)
        live = run_here("triage", "--cluster", "mq", "--observe", "1ms", "--json", "--save", "kept", cwd=mq)
    again = run_here("triage", "--capture", "kept", "--json", cwd=mq)
    assert json.loads(live.stdout)["incomplete"]
    assert again.stdout == live.stdout


def test_damaged_answers_are_refused(mq: Path) -> None:
    """In one sentence; also if what is changed has a matching checksum."""
    for content in (b"", b"x", b"\x78\x9c\x03\x00\x00\x00\x00\x01", AdminAnswers.model_construct(x=1).packed()[:-3]):
        with pytest.raises(DamagedCaptureError):
            AdminAnswers.unpacked(content)


def test_the_number_of_partitions_is_kept() -> None:
    """It stands in what is otherwise left out."""
    document = partitioned("public/default/parts", {0: BUSY}, of=3)
    assert scrubbed(document)["metadata"] == {"partitions": 3, "deleted": False}
    assert scrubbed({"metadata": {"owner": "me"}}) == {}


def test_a_subscriptions_limit_is_asked_for_where_it_decides_something(mq: Path) -> None:
    """Not of one from which the broker says that it kept nothing back; of one of which it does not say so."""
    counters = {
        f"dispatchThrottled{what}EventsBy{whose}Limit": 0
        for what in ("Msg", "Bytes")
        for whose in ("Subscription", "Topic", "Broker")
    }
    told = subscription(type="Shared", consumers=[consumer()], **counters)
    pages = {"public/default/orders": topic(told=told, untold=subscription(type="Shared", consumers=[consumer()]))}
    with scripted(Script(answer=FakeAdmin(pages))) as server:
        settings(mq, server.url)
        run_here("triage", "--cluster", "mq", "--observe", "1ms", "--save", "kept", cwd=mq)
    found = AdminAnswers.unpacked((mq / "kept" / "answers.json.zz").read_bytes())
    asked = [it.path for it in found.answers if it.path.endswith("/dispatchRate")]
    assert sorted(asked) == [f"persistent/public/default/orders{it}/dispatchRate" for it in ("", "/untold")]
