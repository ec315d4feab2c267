"""Fleets that keep a switch: after a restart, an instance is in the new group. kubectl and systemctl are stand-ins here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.replay import stand_in_kubectl
from tests.replay.fakes import request
from tests.replay.test_rolling_cutover import Service
from workbench.errors import ConfigError, GuardError, SourceUnreachableError
from workbench.replay.guard import ReplayLimits
from workbench.replay.plan_of_given_ranges import make_range_plan
from workbench.replay.service_fleet import Capabilities, FleetFile
from workbench.replay.service_fleet_kinds import KubernetesFleet, make_fleet


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """State of a StatefulSet with four pods in the old group."""
    path = tmp_path / "kubernetes.json"
    pods = {f"payments-{number}": {"group": "old", "ready": True} for number in range(4)}
    state = {
        "namespace": "shop",
        "name": "payments",
        "template": "old",
        "former": "old",
        "partition": 0,
        "pods": pods,
        "restarts": [],
    }
    path.write_text(json.dumps(state))
    return path


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """Five instances, batches of two."""
    return Service(tmp_path)


def kubernetes(cluster: Path, **changes: Any) -> KubernetesFleet:
    """The fleet of those pods."""
    kubectl = [sys.executable, stand_in_kubectl.__file__, str(cluster)]
    told = {"name": "payments", "namespace": "shop", "kubectl": kubectl, **changes}
    fleet = make_fleet(
        FleetFile(kind="kubernetes", instances=[f"payments-{number}" for number in range(4)], kubernetes=told)  # type: ignore[arg-type]
    )
    assert isinstance(fleet, KubernetesFleet)
    return fleet


def groups(cluster: Path) -> list[str]:
    """Group of each pod."""
    return [pod["group"] for _, pod in sorted(json.loads(cluster.read_text())["pods"].items())]


def test_pods_go_one_by_one_from_the_highest_number(cluster: Path) -> None:
    """No other pod is replaced with it, and each is in the new group and ready."""
    fleet = kubernetes(cluster)
    assert fleet.instances == ["payments-3", "payments-2", "payments-1", "payments-0"]
    for done, pod in enumerate(fleet.instances, 1):
        assert not fleet.healthy(pod, group="new")
        fleet.switch(pod, group="new", old_group="old", since="s")
        assert groups(cluster) == ["old"] * (4 - done) + ["new"] * done
        assert fleet.healthy(pod, group="new")
        fleet.switch(pod, group="new", old_group="old", since="s")  # twice is safe
    assert json.loads(cluster.read_text())["restarts"] == [3, 2, 1, 0]


def test_a_pod_that_is_deleted_in_between_keeps_its_side(cluster: Path) -> None:
    """A switched pod comes back in the new group, one that is not switched yet in the old one."""
    fleet = kubernetes(cluster)
    fleet.switch("payments-3", group="new", old_group="old", since="s")
    state = json.loads(cluster.read_text())
    for number in range(4):
        stand_in_kubectl.restarted(state, number)
    cluster.write_text(json.dumps(state))
    assert groups(cluster) == ["old", "old", "old", "new"]
    for pod in fleet.instances:
        fleet.switch(pod, group="old", old_group="new", since="s")  # the way back
    assert groups(cluster) == ["old"] * 4


def test_a_pod_that_does_not_become_ready_is_not_healthy(cluster: Path) -> None:
    """And one that does not exist neither; kubectl's error is told."""
    state = json.loads(cluster.read_text())
    cluster.write_text(json.dumps({**state, "broken": [3]}))
    fleet = kubernetes(cluster)
    fleet.switch("payments-3", group="new", old_group="old", since="s")
    assert not fleet.healthy("payments-3", group="new")
    assert groups(cluster) == ["old", "old", "old", "new"]
    with pytest.raises(SourceUnreachableError, match="ended with 1: error: unknown command"):
        kubernetes(cluster, name="payments", container="x").switch("payments-0", group="a", old_group="old", since="s")


def test_a_unit_gets_a_drop_in_and_is_restarted(tmp_path: Path) -> None:
    """The name of the group is quoted as unit files need it; a unit that does not run is not healthy."""
    log, active = tmp_path / "log", tmp_path / "active"
    script = tmp_path / "systemctl.py"
    script.write_text(
        f"import sys, pathlib\npathlib.Path({str(log)!r}).open('a').write(' '.join(sys.argv[1:]) + chr(10))\n"
        f"sys.exit(sys.argv[1] == 'is-active' and not pathlib.Path({str(active)!r}).exists())\n"
    )
    told = {"directory": str(tmp_path / "units"), "systemctl": [sys.executable, str(script)]}
    fleet = make_fleet(FleetFile(kind="systemd", instances=["payments@1"], systemd=told))  # type: ignore[arg-type]
    fleet.switch("payments@1", group='pay 100%"new', old_group="old", since="s")
    text = (tmp_path / "units" / "payments@1.service.d" / "workbench-group.conf").read_text()
    assert text == '[Service]\nEnvironment="WORKBENCH_RUNTIME_GROUP=pay 100%%\\"new"\n'
    assert log.read_text().splitlines() == ["daemon-reload", "restart payments@1"]
    assert not fleet.healthy("payments@1", group='pay 100%"new')
    active.touch()
    assert fleet.healthy("payments@1", group='pay 100%"new')
    assert not fleet.healthy("payments@1", group="other")
    with pytest.raises(ConfigError):
        fleet.switch("payments@1", group="a\nExecStart=/bin/sh", old_group="old", since="s")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "kubernetes", "instances": ["payments-0"]},
        {"kind": "kubernetes", "instances": ["other-0"], "kubernetes": {"name": "payments"}},
        {"kind": "systemd", "instances": ["../../etc/passwd"]},
        {"kind": "http", "instances": ["http://h"], "persist": []},
        {"kind": "http", "instances": ["http://h"], "persist": ["echo", "{nothing}"]},
        *(
            {"kind": "http", "instances": ["http://h"], "persist": words.split(" ", 3)}
            for words in (
                "kubectl set env deployment/payments",
                "/usr/bin/kubectl -n shop rollout restart deploy/payments",
                "sh -c kubectl --context=x patch deployments.apps/payments -p {}",
                "kubectl scale --replicas=3 statefulset payments",
                "oc set env sts/payments",
                "helm upgrade payments chart",
            )
        ),
    ],
)
def test_a_fleet_file_that_does_not_fit_is_refused(fields: dict[str, Any]) -> None:
    """Before anything is asked of anybody."""
    with pytest.raises(ValidationError):
        FleetFile.model_validate(fields)


def test_a_switch_that_a_restart_would_undo_is_refused(service: Service) -> None:
    """Nothing is switched; a declaration or a command in the fleet file, or the instances' own file, make it possible."""
    service.fleet.can = Capabilities()
    with pytest.raises(GuardError, match=r"A restart would bring .* back to 'old'") as caught:
        service.cutover().run()
    assert caught.value.hint is not None and "switch_file" in caught.value.hint
    assert service.fleet.switches == []
    service.file = service.file.model_copy(update={"persist": "elsewhere"})
    service.cutover().run()
    assert set(service.fleet.groups.values()) == {"new"}


@pytest.mark.parametrize("persist", ["elsewhere", ["echo", "{group}"]])
def test_ranges_that_a_restart_would_forget_are_refused(service: Service, persist: Any) -> None:
    """The group would be kept and the ranges not: the instance would also take all records between and behind them."""
    gateway = service.gateway
    service.plan = make_range_plan(request(), gateway, ranges={key: [(2, 6)] for key in gateway.records})
    gateway.groups["new"] = dict(service.plan.targets)
    service.fleet.can = Capabilities(stops_at_ranges=True)
    service.file = service.file.model_copy(update={"persist": persist})
    with pytest.raises(GuardError, match="persist keeps the group of an instance, and not its ranges") as caught:
        service.cutover().run()
    assert "switch_file" in (caught.value.hint or "")
    assert service.fleet.switches == []
    service.cutover(limits=ReplayLimits(allow_beyond=True))._check_keeps(service.plan)
    service.cutover(back=True)._check_keeps(service.plan)


def test_the_persist_command_runs_before_each_switch(service: Service, tmp_path: Path) -> None:
    """So a kill in between leaves an instance that a restart brings into the new group; if it fails, nothing is switched."""
    told = tmp_path / "persisted"
    service.fleet.can = Capabilities()
    code = f"import sys; open({str(told)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))"
    service.file = service.file.model_copy(update={"persist": [sys.executable, "-c", code, "{instance}", "{group}"]})
    service.cutover().run()
    assert told.read_text().splitlines() == [f"{name} new" for name, _ in service.fleet.switches]
    service.file = service.file.model_copy(update={"persist": [sys.executable, "-c", "raise SystemExit(3)"]})
    switches = list(service.fleet.switches)
    with pytest.raises(GuardError, match="ended with 3"):
        service.cutover(back=True).run()
    assert service.fleet.switches == switches


@pytest.mark.parametrize(
    "words",
    [
        ["kubectl", "patch", "configmap", "payments", "--type=merge", "-p", '{"data": {"group": "{group}"}}'],
        ["kubectl", "exec", "deployment/payments", "--", "persist", "{group}"],
        ["consul", "kv", "put", "deployment/group", "{group}"],
    ],
)
def test_what_only_stores_the_group_may_persist_it(words: list[str]) -> None:
    """No instance is replaced by it."""
    assert FleetFile.model_validate({"kind": "http", "instances": ["http://h"], "persist": words}).persist == words


def changed(cluster: Path, **values: Any) -> None:
    """Change the state of the StatefulSet."""
    cluster.write_text(json.dumps({**json.loads(cluster.read_text()), **values}))


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ((0, 1, 2, 3, 4, 5), "does not name payments-4 and payments-5"),
        ((0, 1), "names payments-2 and payments-3, which it does not have"),
    ],
)
def test_pods_that_the_file_does_not_know_stop_the_switch(cluster: Path, pods: tuple[int, ...], words: str) -> None:
    """It was scaled since: with the first pod, all others above it would change their group unseen. Nothing is changed."""
    changed(cluster, pods={f"payments-{number}": {"group": "old", "ready": True} for number in pods})
    with pytest.raises(GuardError, match=words):
        kubernetes(cluster).switch("payments-3", group="new", old_group="old", since="s")
    assert set(groups(cluster)) == {"old"}
    assert json.loads(cluster.read_text())["template"] == "old"


def test_pods_that_are_replaced_by_hand_are_not_switched(cluster: Path) -> None:
    """Its strategy is somebody's decision, and stays."""
    changed(cluster, strategy="OnDelete")
    with pytest.raises(GuardError, match="update strategy OnDelete") as caught:
        kubernetes(cluster).switch("payments-3", group="new", old_group="old", since="s")
    assert 'kind = "command"' in (caught.value.hint or "")
    assert json.loads(cluster.read_text())["template"] == "old"


@pytest.mark.parametrize(
    "text",
    [
        "Logged in as x.\n{}",
        '{"spec": {}}',
        "[]",
        "",
        '{"spec": {"replicas": "many", "template": {"spec": {"containers": []}}}}',
        "null",
    ],
)
def test_what_kubectl_prints_besides_is_told(tmp_path: Path, service: Service, text: str) -> None:
    """A login helper's banner, another kind of object, nothing: an error in words, the journal has an end, and no pod is healthy."""
    (tmp_path / "out").write_text(text)
    kubectl = [sys.executable, "-c", f"import pathlib; print(pathlib.Path({str(tmp_path / 'out')!r}).read_text())"]
    file = FleetFile(kind="kubernetes", instances=["pay-0", "pay-1"], kubernetes={"name": "pay", "kubectl": kubectl})  # type: ignore[arg-type]
    fleet = make_fleet(file)
    with pytest.raises(GuardError, match="prints something else than the statefulset 'pay'"):
        service.cutover(fleet=fleet, file=file).run()
    assert [(it.phase, it.outcome) for it in service.journal.read()[0]] == [("begin", None), ("end", "failed")]
    assert not fleet.healthy("pay-0", group="new")


def test_an_error_that_nobody_foresaw_has_an_end_in_the_journal(service: Service) -> None:
    """What is not known is written as unknown, before it is raised."""

    def switch(*_: object, **__: object) -> None:
        raise KeyError("spec")

    service.fleet.switch = switch  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        service.cutover().run()
    assert [(it.phase, it.outcome) for it in service.journal.read()[0]] == [("begin", None), ("end", "unknown")]
