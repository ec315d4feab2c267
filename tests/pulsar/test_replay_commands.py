"""`workbench replay` given a plan of a Pulsar: which command reads it, and what is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.pulsar.pages import FakeAdmin, serving, subscription, topic
from tests.pulsar.replaying import NEW, OLD, TOPIC, InMemoryPulsar, Part
from tests.pulsar.test_replay import BEGIN, planned
from tests.reference.valid import valid
from workbench.cli.pulsar import command as operators
from workbench.cli.replay import command
from workbench.plans.missing_records_file import MissingRecords, write_missing
from workbench.plans.strict_document import canonical_hash, is_of
from workbench.pulsar import admin as pulsar_admin
from workbench.pulsar.topic_names import split_group
from workbench.queues.position import packed


@pytest.fixture
def pulsar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InMemoryPulsar:
    """One that every command asks; the journal is in the test's folder."""
    made = InMemoryPulsar([Part({3: [BEGIN, BEGIN + 5]}, {OLD: (3, 1)})])
    monkeypatch.setattr(pulsar_admin, "PulsarAdmin", lambda *_, **__: made)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return made


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings of it."""
    path = tmp_path / "workbench.toml"
    path.write_text('[clusters.events]\nsystem = "pulsar"\npulsar.admin_url = "http://127.0.0.1:1"\n')
    return path


@pytest.fixture
def plan(pulsar: InMemoryPulsar, tmp_path: Path) -> Path:
    """A plan in a file."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(planned(pulsar, BEGIN).document()))
    return path


def run(config: Path, *words: Any) -> Result:
    """Run a command of `workbench replay`."""
    return CliRunner().invoke(command, [*map(str, words), "--config", str(config)])


WORDS = ("plan", "--cluster", "events", "--from-group", f"{OLD}@{TOPIC}", "--new-group", NEW)


@pytest.mark.parametrize(
    ("named", "more", "words"),
    [
        (TOPIC, (), None),
        (TOPIC, ("--since", "3h"), "either the start with --since, or --from-audit"),
        (TOPIC, ("--until", "1h"), "either the start with --since, or --from-audit"),
        ("shop/orders/paid", (), "missing records of shop/orders/paid, and this is a replay of shop/orders/created"),
    ],
)
def test_a_plan_of_missing_messages_is_of_their_topic(
    pulsar: InMemoryPulsar, config: Path, named: str, more: tuple[str, ...], words: str | None
) -> None:
    """And of nothing else."""
    at = packed((*pulsar.parts[0].entries[0][0], 0)) or 0
    missing = config.parent / "missing.json"
    write_missing(missing, MissingRecords.of("orders", "sink", [(named, 0, [at])], unnamed=0))
    found = run(config, *WORDS, "--from-audit", str(missing), *more)
    assert pulsar.changes == 0
    if words is None:
        assert found.exit_code == 0, found.exception
    else:
        assert words in str(found.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("--partition", "0", "--since", "3h"),
        ("--after-end", "skip", "--since", "3h"),
        ("--csv", "x.csv", "--since", "3h"),
    ],
)
def test_a_plan_refuses_what_it_would_not_heed(pulsar: InMemoryPulsar, config: Path, words: tuple[str, ...]) -> None:
    """By the option's name, whatever else is given."""
    assert pulsar.changes == 0
    found = run(config, *WORDS, *words)
    assert f"{words[0]} does not work on a Pulsar yet" in str(found.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "--dry-run", "--allow-existing"),
        ("apply", "--dry-run", "--retention-margin", "1h"),
        ("verify", "--processed", "log.csv"),
        ("verify", "--records"),
        ("verify", "--key-ranges", "3"),
    ],
)
def test_no_check_is_left_out_without_a_word(config: Path, plan: Path, words: tuple[str, ...]) -> None:
    """Who asks for each record to be looked up must not get a "yes" of the acknowledgements."""
    found = run(config, words[0], plan, *words[1:])
    assert "does not work on a Pulsar yet" in str(found.exception)


@pytest.mark.parametrize("words", [("inspect",), ("retire",), ("cutover", "--fleet", "fleet.toml")])
def test_what_does_not_work_yet_says_so(config: Path, plan: Path, words: tuple[str, ...]) -> None:
    """And not that the plan is wrong."""
    found = run(config, words[0], plan, *words[1:])
    assert "is of a replay on Pulsar, where this does not work yet" in str(found.exception)


def test_the_order_of_a_file_s_fields_says_nothing(config: Path, plan: Path, tmp_path: Path) -> None:
    """As its hash does not; and a name in another plan is no schema."""
    document = json.loads(plan.read_text())
    del document["schema"]
    document["reason"] = "x" * 2000
    document["schema"] = "workbench.pulsar-replay/1"
    plan.write_text(json.dumps({**document, "hash": canonical_hash(document)}))
    found = run(config, "apply", plan, "--dry-run")
    assert (found.exit_code, "all checks passed" in found.output) == (0, True), found.output
    other = tmp_path / "kafka.json"
    other.write_text(json.dumps({"schema": "workbench.replay-plan/1", "new_group": "workbench.pulsar-x"}))
    assert not is_of(other, "workbench.pulsar-")


@pytest.mark.parametrize("words", [("rollback", "plan.json"), ("apply", "plan.rollback.json")])
def test_one_file_for_the_other(config: Path, plan: Path, words: tuple[str, str]) -> None:
    """A plan is no rollback file, and the other way round."""
    assert run(config, "apply", plan, "--confirm", f"{NEW} 2").exit_code == 0
    found = run(config, words[0], plan.parent / words[1], "--confirm", f"{NEW} 2")
    assert "of a replay on Pulsar" in str(found.exception)
    assert "is not a" in str(found.exception)


def test_no_plan_that_was_applied_and_no_other_file_is_replaced(config: Path, plan: Path, tmp_path: Path) -> None:
    """Its rollback needs the plan; with `--force`, too."""
    assert run(config, *WORDS, "--since", "3h", "-o", plan).exit_code == 1
    assert run(config, *WORDS, "--since", "3h", "-o", plan, "--force").exit_code == 0
    assert run(config, "apply", plan, "--confirm", f"{NEW} 0").exit_code == 0
    (tmp_path / "plan.rollback.json").rename(tmp_path / "elsewhere.json")
    found = run(config, *WORDS, "--since", "3h", "-o", plan, "--force")
    assert "was applied, according to the journal" in str(found.exception)
    other = tmp_path / "workbench.toml"
    assert "not a valid plan" in str(run(config, *WORDS, "--since", "3h", "-o", other, "--force").exception)
    assert "folder of" in str(run(config, *WORDS, "--since", "3h", "-o", tmp_path / "none" / "plan.json").exception)


@pytest.mark.parametrize(
    ("group", "split"),
    [
        ("billing", ("billing", None)),
        ("billing@shop/orders/created", ("billing", "shop/orders/created")),
        ("a@b@shop/orders/created", ("a@b", "shop/orders/created")),
        ("billing@shop/orders/cre@ted/x", ("billing", "shop/orders/cre@ted/x")),
        ("billing@eu", ("billing@eu", None)),
    ],
)
def test_a_group_is_a_subscription_and_a_topic(group: str, split: tuple[str, str | None]) -> None:
    """Whatever else has an @ in its name."""
    assert split_group(group) == split


def test_the_new_group_may_be_written_like_the_old_one(pulsar: InMemoryPulsar, config: Path) -> None:
    """With its topic, which is no part of the name."""
    words = ("plan", "--cluster", "events", "--from-group", f"{OLD}@{TOPIC}", "--since", "3h", "--json", "--new-group")
    assert pulsar.changes == 0
    assert json.loads(run(config, *words, f"{NEW}@{TOPIC}").output)["new_subscription"] == NEW
    assert "needs a new subscription" in str(run(config, *words, f"{OLD}@{TOPIC}").exception)
    assert "no name for a subscription" in str(run(config, *words, "..").exception)


def test_what_is_printed_has_a_schema(config: Path, plan: Path) -> None:
    """Each step of a replay."""
    valid("pulsar-plan", json.loads(run(config, *WORDS, "--since", "3h", "--json").stdout))
    valid("pulsar-receipt", json.loads(run(config, "apply", plan, "--dry-run", "--json").stdout))
    valid("pulsar-receipt", json.loads(run(config, "apply", plan, "--confirm", f"{NEW} 2", "--json").stdout))
    valid("pulsar-rollback", json.loads(plan.with_suffix(".rollback.json").read_text()))
    valid("pulsar-progress", json.loads(run(config, "follow", plan, "--once", "--json").stdout))
    valid("pulsar-progress", json.loads(run(config, "verify", plan, "--json").stdout))
    undo = run(config, "rollback", plan.with_suffix(".rollback.json"), "--confirm", f"{NEW} 1", "--json")
    assert valid("pulsar-rolled-back", json.loads(undo.stdout))["deleted"] == [0]


def test_what_the_other_commands_print_has_a_schema(tmp_path: Path) -> None:
    """Subscriptions, a split, and settings."""
    hot = ("--bundle", "0x00000000_0x40000000", "--hot", "0x25000000=1", "--hot", "0x32000000=2")
    valid("pulsar-split-plan", json.loads(CliRunner().invoke(operators, ["split-plan", *hot, "--json"]).stdout))
    (tmp_path / "broker.conf").write_text("cacheEvictionByMarkDeletedPositio=true\n")
    checked = CliRunner().invoke(operators, ["config-check", str(tmp_path / "broker.conf"), "--json"])
    assert len(valid("pulsar-config-check", json.loads(checked.stdout))["misspelt"]) == 1
    with serving(FakeAdmin({"public/default/orders": topic(billing=subscription(), old={})})) as (_, script):
        config = tmp_path / "workbench.toml"
        config.write_text(f'[clusters.events]\nsystem = "pulsar"\npulsar.admin_url = "{script.url}"\n')
        words = ["subscriptions", "--cluster", "events", "--config", str(config), "--json"]
        found = valid("pulsar-subscriptions", json.loads(CliRunner().invoke(operators, words).stdout))
    assert sorted(it["subscription"] for it in found["subscriptions"]) == ["billing", "old"]
