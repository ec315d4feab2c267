"""Rules of reading alerts: every form of them, each alert alone, and never the whole cluster for a group that was not understood."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from workbench.alerts import NO_NAMES, Alert, Names, left_out, parse_alerts, parse_message, read_message, told
from workbench.cli.triage_alert_option import asked_by
from workbench.errors import ConfigError, UsageError
from workbench.settings import Settings


def one(labels: dict[str, Any], names: Names = NO_NAMES, **more: Any) -> Alert:
    """The alert with these labels."""
    document = {"version": "4", "alerts": [{"status": "firing", "labels": labels, **more}]}
    return parse_message(json.dumps(document), names=names).alerts[0]


def names_of(**document: Any) -> Names:
    """Those of settings."""
    clusters = {name: {"name": name, **cluster} for name, cluster in document.pop("clusters", {}).items()}
    return Names.of(Settings.model_validate({"clusters": clusters, **document}))


@pytest.mark.parametrize(
    "label",
    ["dimension_Consumer_Group", "exported_consumergroup", "consumerGroup", "consumer.group.id", "tag_group_id"],
)
def test_a_label_is_compared_without_case_and_prefix(label: str) -> None:
    """Exporters of CloudWatch, relabelling and OpenTelemetry write the same names in their own way."""
    assert one({label: "ledger"}).group == "ledger"


def test_the_surest_name_counts() -> None:
    """A rule's `group` may be a team; the settings know better than any list."""
    labels = {"group": "platform-team", "consumergroup": "ledger", "svc": "own", "topic_name": "entries"}
    assert (one(labels).group, one(labels).topic) == ("ledger", "entries")
    assert one(labels, names_of(alerts={"group": ["svc"]})).group == "own"
    assert one({"group": "", "svc": "own"}, names_of(alerts={"group": ["svc"]})).group == "own"


@pytest.mark.parametrize("labels", [{"my_group_x": "ledger"}, {"consumergroup": 5}, {"kafkaConsumerGroupName": "a"}])
def test_a_group_that_was_not_read_is_said(labels: dict[str, Any]) -> None:
    """It would silently become an alert about the whole cluster."""
    found = one({"alertname": "Lag", **labels})
    assert (found.group, list(found.unread)) == ("", list(labels))
    assert told([found]) == [f"Alert Lag: its group was not read from {next(iter(labels))}."]


@pytest.mark.parametrize("name", ["alertgroup", "rule_group", "resource_group", "eks_nodegroup", "log_group_name"])
def test_groups_of_other_things_are_none(name: str) -> None:
    """Of rules, machines and logs."""
    assert one({"alertname": "Lag", name: "x"}).unread == ()


def test_a_client_of_the_settings_has_a_group() -> None:
    """As for metrics that have no group."""
    names = names_of(clusters={"prod": {"members": {"ledger-0": "ledger"}}})
    assert one({"client_id": "ledger-0"}, names).group == "ledger"
    assert one({"client_id": "other"}, names).group == ""
    both = names_of(clusters={"prod": {"members": {"app": "ledger"}}, "stage": {"members": {"app": "ledger-stage"}}})
    assert [one({"client_id": "app", "cluster": it}, both).group for it in ("prod", "stage", "x")] == [
        "ledger",
        "ledger-stage",
        "",
    ]


def test_shared_tags_do_not_multiply() -> None:
    """Grafana's old form: each match has all of them, so a megabyte of each would take hours."""
    tags = {f"tag{number}": "x" for number in range(2000)}
    with pytest.raises(UsageError, match="more tags"):
        parse_alerts(json.dumps({"ruleName": "A", "state": "alerting", "tags": tags, "evalMatches": [{}] * 1000}))


def test_the_cluster_is_the_one_that_match_selects() -> None:
    """Its name in the settings comes first; two that fit are none."""
    names = names_of(
        clusters={
            "eu": {"match": {"cluster": "eks-eu-1", "env": "=~prod|stage"}},
            "us": {"match": {"cluster": "eks-us-1", "env": "!~test.*"}},
        }
    )
    assert one({"cluster": "eks-eu-1"}, names).cluster == "eu"
    assert one({"cluster": "eks-eu-1", "env": "stage"}, names).cluster == "eu"
    assert one({"cluster": "eks-us-1", "env": "test-1"}, names).cluster == "eks-us-1"
    assert one({"cluster": "us"}, names).cluster == "us"
    assert one({"cluster": "eks-ap-1"}, names).cluster == "eks-ap-1"
    assert one({}, names).cluster == ""


def test_a_long_label_is_matched_with_no_pattern() -> None:
    """Python's matcher goes back where Prometheus' does not: a megabyte would take hours."""
    names = names_of(clusters={"eu": {"match": {"env": "=~.*prod.*eu.*"}}, "us": {"match": {"env": "us"}}})
    assert one({"env": "my-prod-in-eu-1"}, names).cluster == "eu"
    assert one({"env": "prod" * 250_000}, names).cluster == ""


def test_the_only_cluster_is_taken_and_said() -> None:
    """If all series of its Prometheus are its own; with a `match` another name is another cluster."""
    found = one({"cluster": "eks-eu-1"}, names_of(clusters={"prod": {}}))
    assert (found.cluster, found.taken_for) == ("prod", "eks-eu-1")
    assert "eks-eu-1 was taken for prod" in found.doubts()
    assert one({}, names_of(clusters={"prod": {}})).doubts() == ""
    other = one({"cluster": "eks-us-1"}, names_of(clusters={"prod": {"match": {"cluster": "eks-eu-1"}}}))
    assert (other.cluster, other.taken_for) == ("eks-us-1", "")


GOOD = {"labels": {"alertname": "A", "consumergroup": "a"}, "startsAt": "2026-11-25T10:20:00Z"}
FORMS = {
    "Alertmanager's webhook": {"version": "4", "alerts": [{**GOOD, "status": "firing", "annotations": None}]},
    "Alertmanager's API v2": [{**GOOD, "status": {"state": "active", "silencedBy": []}, "endsAt": "9999-01-01T00:00:00Z"}],
    "Alertmanager's API v1": {"status": "success", "data": [GOOD]},
    "Prometheus' API": {"status": "success", "data": {"alerts": [{**GOOD, "state": "firing", "value": "1e+00"}]}},
    "Grafana before 9": {
        "ruleName": "A", "state": "alerting", "tags": None,
        "evalMatches": [{"metric": "lag", "tags": {"consumergroup": "a"}}, {"tags": None}, 5],
    },
}  # fmt: skip


@pytest.mark.parametrize("document", FORMS.values(), ids=FORMS)
def test_each_form_is_read(document: Any) -> None:
    """From a file that somebody has saved from whichever API."""
    found = parse_alerts(json.dumps(document))[0]
    assert (found.name, found.group, found.firing) == ("A", "a", True)


def test_an_alert_that_has_ended_does_not_fire() -> None:
    """By its status, by its state, or by its end."""
    ended: list[Any] = [
        {"alerts": [{**GOOD, "status": "resolved"}]},
        {"data": {"alerts": [{**GOOD, "state": "pending"}]}},
        [{**GOOD, "endsAt": "2026-11-20T00:00:00Z"}],
        {"ruleName": "A", "state": "ok", "evalMatches": []},
    ]
    assert [parse_alerts(json.dumps(it))[0].firing for it in ended] == [False] * 4


@pytest.mark.parametrize(
    "bad",
    [
        {**GOOD, "startsAt": "not a time"}, {**GOOD, "startsAt": 5}, {**GOOD, "labels": None}, {**GOOD, "labels": []},
        None, 5, "x", [], {},
    ],
)  # fmt: skip
def test_a_bad_alert_fails_alone(bad: Any) -> None:
    """Alertmanager does not send a refused message again, so the good ones would be lost with it."""
    found = parse_message(json.dumps({"alerts": [bad, GOOD, bad], "truncatedAlerts": 4}))
    assert ([it.group for it in found.alerts], found.dropped, found.truncated) == (["a"], 2, 4)
    assert [re.sub(r":.*", "", it) for it in left_out(found)] == [
        "2 alerts of this message cannot be read",
        "Alertmanager left 4 alerts out of this message, so this result is incomplete.",
    ]
    with pytest.raises(UsageError, match="no alert that can be read"):
        parse_message(json.dumps({"alerts": [bad]}))


@pytest.mark.parametrize("text", ["{}", "5", '{"alerts": 5}', '{"alerts": []}', "[]", "[" * 10_000, "", '{"data": {}}'])
def test_what_is_no_message_is_refused(text: str) -> None:
    """With one sentence."""
    with pytest.raises(UsageError):
        parse_message(text)


def test_items_are_counted_before_they_are_built() -> None:
    """A message of 3 MB could otherwise become a hundred times as much."""
    with pytest.raises(UsageError, match="more items"):
        parse_message("[" + "[]," * 600_000 + "[]]")


def test_texts_can_be_stored() -> None:
    """A lone surrogate becomes an escape, wherever it stands."""
    found = one({"alertname": "x\ud800", "consumergroup": "\udfff"}, fingerprint="\ud800")
    assert (found.name, found.group, found.fingerprint) == ("x\\ud800", "\\udfff", "\\ud800")


def test_the_command_says_what_it_covers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The only cluster is taken, and a triage of the whole cluster is never silent."""
    config, alert = tmp_path / "w.toml", tmp_path / "alert.json"
    config.write_text("[clusters.prod]\n")
    alert.write_text(json.dumps([{"labels": {"alertname": "Lag", "svc_group": "ledger"}}, {"labels": None}]))

    def asked(**more: Any) -> tuple[str | None, tuple[str, ...]]:
        found = asked_by(alert, cluster=None, recorded=False, groups=(), topics=(), since=None, config=config, **more)
        return found.cluster, found.groups

    assert asked() == ("prod", ())
    said = capsys.readouterr().err
    assert "its group was not read from svc_group" in said
    assert "this triage covers the whole cluster" in said
    assert "1 alert of this message cannot be read" in said
    config.write_text('[clusters.prod]\n[alerts]\ngroup = ["svc_group"]\n')
    assert asked() == ("prod", ("ledger",))
    assert "covers" not in capsys.readouterr().err
    config.write_text("[alerts]\ngruop = []\n")
    with pytest.raises(ConfigError, match="group"):
        asked()


def test_a_message_is_read_from_a_file(tmp_path: Path) -> None:
    """With the file's name in the error."""
    (tmp_path / "a.json").write_text(json.dumps([GOOD]))
    assert read_message(tmp_path / "a.json").alerts[0].group == "a"
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(UsageError, match=r"b\.json is not an Alertmanager webhook"):
        read_message(tmp_path / "b.json")
