"""A redrive on three secured brokers: killed at random moments, and one broker lost meanwhile."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.lab.test_redrive_kills import check_exactly_once, killed_until_done
from tests.redrive.redriving import dlq, kafka_of, records_of, write_letters
from tests.redrive.six_kinds import letters
from tests.secured.conftest import fresh, settings_for
from tests.three_brokers.access import ADMIN, ONCALL, READER, READER_QUOTA
from tests.three_brokers.secured import PASSWORD_VARIABLE, SecuredLab
from workbench.kafka.quotas import quotas_of
from workbench.queues.replay_port import Quotas
from workbench.redrive.planfile import read_redrive_plan

pytestmark = pytest.mark.secured


def test_exactly_once_with_kills(whole: SecuredLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 letters of six kinds, by class of error, at 5,000 per second, with 30 kills of the command."""
    monkeypatch.setenv(PASSWORD_VARIABLE, whole.passwords[ADMIN])
    source = fresh("orders")
    topic, settings, properties = f"{source}-dlt", settings_for(whole, tmp_path, ADMIN), whole.properties(ADMIN)
    for name in (source, topic):
        whole.create_topic(name, 3)
    write_letters(whole.bootstrap, topic, letters(100_000, source), properties)
    path = tmp_path / "redrive.json"
    words = ("--cluster", "mine", "--error", "*Timeout*", "--error", "http_*", "--error", "(none)", "-o", str(path))
    made = dlq("plan", topic, *words, "--max-records-per-second", "5000", settings=settings)
    assert made.returncode == 0, made.stderr
    plan = read_redrive_plan(path)
    longest = 1.5 * plan.letters / 5_000 / 30
    assert killed_until_done(path, settings, kills=30, seed=3, longest=longest) >= 15
    check_exactly_once(whole.bootstrap, source, path, settings, properties)


def test_a_broker_is_lost_meanwhile(whole: SecuredLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command goes on by itself, or ends with an error and continues when it is repeated; each record is there once."""
    monkeypatch.setenv(PASSWORD_VARIABLE, whole.passwords[ADMIN])
    source = fresh("orders")
    topic, settings, properties = f"{source}-dlt", settings_for(whole, tmp_path, ADMIN), whole.properties(ADMIN)
    for name in (source, topic):
        whole.create_topic(name, 3)
    write_letters(whole.bootstrap, topic, letters(20_000, source), properties)
    path = tmp_path / "redrive.json"
    words = ("--cluster", "mine", "--max-records-per-second", "2000", "-o", str(path))
    assert dlq("plan", topic, *words, settings=settings).returncode == 0
    plan = read_redrive_plan(path)
    lost = threading.Timer(3.0, whole.brokers[1].kill)
    lost.start()
    apply = ("apply", str(path), "--apply", "--confirm", plan.short_hash, "--allow-under-replicated")
    ended = dlq(*apply, settings=settings, timeout=200)
    lost.join()
    whole.heal()
    for _ in range(5):
        if ended.returncode == 0:
            break
        assert ended.returncode in (5, 6), ended.stderr
        time.sleep(2)
        ended = dlq(*apply, settings=settings, timeout=200)
    assert ended.returncode == 0, ended.stderr
    check_exactly_once(whole.bootstrap, source, path, settings, properties)


def test_without_the_right_to_write_nothing_begins(
    whole: SecuredLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may only read can list and plan; `apply` is refused with the right that is lacking, before any group or record."""
    monkeypatch.setenv(PASSWORD_VARIABLE, whole.passwords[ONCALL])
    source = fresh("orders")
    topic, settings = f"{source}-dlt", settings_for(whole, tmp_path, ONCALL)
    for name in (source, topic):
        whole.create_topic(name, 3)
    write_letters(whole.bootstrap, topic, letters(300, source), whole.properties(ADMIN))
    path = tmp_path / "redrive.json"
    listed = dlq("list", "--cluster", "mine", settings=settings)
    assert listed.returncode == 0 and topic in listed.stdout, listed.stderr
    made = dlq("plan", topic, "--cluster", "mine", "-o", str(path), settings=settings)
    assert made.returncode == 0, made.stderr
    plan = read_redrive_plan(path)
    for words in (("--dry-run",), ("--apply", "--confirm", plan.short_hash)):
        refused = dlq("apply", str(path), *words, settings=settings)
        assert refused.returncode == 6, refused.stderr
        assert f"lack WRITE on the topic '{source}'" in refused.stderr
    assert quotas_of(whole.bootstrap, whole.properties(ONCALL)) is None  # that is another right
    found = quotas_of(whole.bootstrap, whole.properties(ADMIN), READER)
    assert found == Quotas(user=READER, consumer_bytes=float(READER_QUOTA))
    assert quotas_of(whole.bootstrap, whole.properties(ADMIN)) == Quotas(user=ADMIN)
    kafka = kafka_of(whole.bootstrap, whole.properties(ADMIN))
    assert records_of(kafka, source) == []
    assert plan.id not in kafka.gateway.groups()
