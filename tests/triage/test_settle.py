"""Rules of what the settings add to a finding: addresses, and the commands of its actions."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evaluation.kept import read
from tests.triage.findings import finding
from workbench.errors import ConfigError
from workbench.settings import load_settings
from workbench.settings_of_groups import ACTION_PLACES, Expectations, GroupSettings
from workbench.triage import finding as finding_module
from workbench.triage.build_finding import build_finding
from workbench.triage.causes import rebalance_storm
from workbench.triage.finding import Action, Change, Finding
from workbench.triage.owner_links_commands import with_settings
from workbench.window import Window

NOW = datetime(2026, 11, 21, 3, tzinfo=UTC)
WINDOW = Window.ending(NOW, length=timedelta(minutes=15), baseline=timedelta(hours=1))
RESTART = Action(title="Restart", command=None, verify="v", kind="restart_consumers", parameters={"members": ["a"]})
LOOK = Action(title="Look", command="workbench events list", verify="v")
SCALE = Action(title="Scale", command="kafka-groups", verify="v", kind="add_consumers", parameters={"members": 6})
DEPLOY = Change(ts="2026-11-21T02:44:00+00:00", kind="deploy", text="payments 2.4", seconds_before=60.0)

# Kinds of no kept case: two are of settings alone, and three of far brokers, rollouts and new partitions.
HARDLY_ADVISED = {"move_members", "pause", "rollback", "stop_changes", "stop_deploy"}


def settled(of: Finding, **settings: object) -> Finding:
    """A finding with these settings of its group."""
    expected = Expectations({"pay*": GroupSettings.model_validate(settings)}).of(of.group)
    return with_settings(of, expected, WINDOW, now=NOW)


def test_a_mitigation_takes_its_command_from_the_settings() -> None:
    """Also one that has another command; names are quoted for the shell, and an unknown place stays."""
    templates = {
        "restart_consumers": "kubectl -n {namespace} rollout restart deploy/{group}",
        "add_consumers": "kubectl scale deploy/{group} --replicas={members}",
    }
    found = settled(finding(group="pay me", actions=(LOOK, RESTART, SCALE)), actions=templates)
    assert [it.command for it in found.actions] == [
        "workbench events list",
        "kubectl -n {namespace} rollout restart deploy/'pay me'",
        "kubectl scale deploy/'pay me' --replicas=6",
    ]


def test_an_action_of_some_members_names_each_of_them() -> None:
    """As words of their own for the shell; where all are meant, the place stays for a person to fill in."""
    some = replace(RESTART, parameters={"members": ["worker-1", "it's 2"], "partitions": [3, 7]})
    everybody = replace(RESTART, parameters={"members": []})
    template = {"restart_consumers": "kubectl delete pod {members} # {partitions}"}
    found = settled(finding(actions=(some, everybody)), actions=template)
    assert [it.command for it in found.actions] == [
        """kubectl delete pod worker-1 'it'"'"'s 2' # 3 7""",
        "kubectl delete pod {members} # {partitions}",
    ]


def test_a_rollback_is_advised_only_where_something_was_deployed() -> None:
    """Second, after the look that says whether the change is the cause; a pause comes last."""
    templates = {
        "rollback": "kubectl rollout undo deploy/{group}",
        "pause": "kubectl scale deploy/{group} --replicas=0",
    }
    quiet = settled(finding(actions=(LOOK, RESTART)), actions=templates)
    assert [it.kind for it in quiet.actions] == [None, "restart_consumers", "pause"]
    after = settled(finding(actions=(LOOK, RESTART), changed=DEPLOY), actions=templates)
    assert [it.kind for it in after.actions] == [None, "rollback", "restart_consumers", "pause"]
    assert "payments 2.4" in after.actions[1].title


def test_runbooks_and_dashboards_become_addresses() -> None:
    """With the group and the window filled in, escaped for a URL."""
    found = settled(
        finding(group="pay&me", runbook="runbooks/SlowProcessor.md"),
        runbook_base="https://wiki.example.com/books/",
        grafana="https://grafana.example.com/d/lag?var-group={group}&from={from_ms}&to={to_ms}",
    )
    assert found.runbook == "https://wiki.example.com/books/SlowProcessor.md"
    assert found.links["Grafana"].startswith("https://grafana.example.com/d/lag?var-group=pay%26me&from=17")
    assert found.to_json()["links"] == found.links
    assert settled(finding(runbook="runbooks/SlowProcessor.md")).runbook == "runbooks/SlowProcessor.md"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('actions = { restart = "x" }', "Did you mean `restart_consumers`"),
        ('actions = { pause = "scale {grup}" }', r"nothing fills in \{grup\}. Did you mean `group`"),
        ('actions = { pause = "scale {member}" , restart_consumers = "delete {member}" }', "Did you mean `members`"),
        (
            'logs = "https://logs.example.com/?q={group}&from={fromms}"',
            r"nothing fills in \{fromms\}. Did you mean `from_ms`",
        ),
        ('grafana = "grafana/d/x"', "not an http or https URL"),
        ('runbook_base = "../runbooks"', "not an http or https URL"),
    ],
)
def test_a_wrong_setting_is_named(line: str, said: str, tmp_path: Path) -> None:
    """With the field, and what it should be."""
    path = tmp_path / "workbench.toml"
    path.write_text(f'[clusters.prod]\nprometheus = "http://p:9090"\n[clusters.prod.groups."pay*"]\n{line}\n')
    with pytest.raises(ConfigError, match=said):
        load_settings(path)


def constants(argument: str) -> set[str]:
    """Texts given for an argument of `Action`, or of a shape of it, anywhere in triage."""
    found = set()
    for path in Path(finding_module.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("Action", "act"):
                for it in node.keywords:
                    if it.arg == argument:
                        found.add(ast.unparse(it.value))
    return found


def test_every_kind_of_action_can_have_a_command() -> None:
    """The settings accept a template for each kind that triage advises, and for no other."""
    texts = constants("kind")
    kinds = {ast.literal_eval(text) for text in texts if text.startswith("'")}
    assert texts - {repr(it) for it in kinds} == {"kind"}  # of a storm, by its cause
    assert kinds | {kind for *_, kind in rebalance_storm._CAUSES.values()} == set(ACTION_PLACES)


def test_every_value_of_an_action_can_stand_in_its_command() -> None:
    """Judged over the kept cases; a place that no action fills is none."""
    seen: dict[str, set[str]] = defaultdict(set)
    for case, _, _ in read():
        for action in build_finding(case.judged(), profiles=[], bootstrap="broker:9092").actions:
            if action.kind is not None:
                seen[action.kind].update(name for name, it in action.parameters.items() if not isinstance(it, dict))
    assert set(ACTION_PLACES) - set(seen) == HARDLY_ADVISED
    for kind, names in seen.items():
        assert names <= set(ACTION_PLACES[kind]), kind
    assert {name for names in seen.values() for name in names} == {
        it for names in ACTION_PLACES.values() for it in names
    }


def test_no_action_repeats_the_command_that_was_just_run() -> None:
    """A plain `workbench triage` of the same group is what led here."""
    assert "it.triage" not in constants("command")
