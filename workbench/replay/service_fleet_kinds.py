"""Fleets that keep a switch by themselves: Kubernetes by kubectl, and systemd by a drop-in file. And the choice by the fleet file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import ConfigError, GuardError, SourceUnreachableError
from workbench.files import write_text
from workbench.humanize import listed, one_line, plural
from workbench.limited_reads import first_problem
from workbench.replay.service_fleet import (
    CommandFleet,
    FleetFile,
    HttpFleet,
    Kubernetes,
    RangeTable,
    RestartedFleet,
    ServiceFleet,
    Systemd,
    run_command,
)

_DROP_IN = "workbench-group.conf"


class _Shown(BaseModel):
    """A part of what kubectl shows; what is not needed here is ignored."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", frozen=True, populate_by_name=True)


M = TypeVar("M", bound=_Shown)


class _Variable(_Shown):
    name: str
    value: str | None = None


class _Container(_Shown):
    name: str | None = None
    env: list[_Variable] | None = None


class _PodSpec(_Shown):
    containers: list[_Container]


class _Template(_Shown):
    spec: _PodSpec


class _Rolling(_Shown):
    partition: int | None = None


class _Strategy(_Shown):
    type: str = "RollingUpdate"
    rolling: _Rolling | None = Field(default=None, alias="rollingUpdate")


class _Ordinals(_Shown):
    start: int = 0


class _Workload(_Shown):
    replicas: int = 1
    ordinals: _Ordinals | None = None
    strategy: _Strategy = Field(default=_Strategy(), alias="updateStrategy")
    of_pods: _Template = Field(alias="template")

    @property
    def template(self) -> _PodSpec:
        """What new pods are made from."""
        return self.of_pods.spec

    @property
    def start(self) -> int:
        """Number of the first pod."""
        return self.ordinals.start if self.ordinals is not None else 0

    @property
    def partition(self) -> int:
        """Pods from this number on are replaced."""
        return (self.strategy.rolling.partition if self.strategy.rolling is not None else None) or 0


class _StatefulSet(_Shown):
    spec: _Workload


class _Condition(_Shown):
    type: str
    status: str


class _PodStatus(_Shown):
    conditions: list[_Condition] = []


class _Metadata(_Shown):
    deletion: str | None = Field(default=None, alias="deletionTimestamp")


class _Pod(_Shown):
    metadata: _Metadata = _Metadata()
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


@dataclass(frozen=True, slots=True)
class KubernetesFleet(RestartedFleet):
    """Pods of a StatefulSet or whole Deployments; the group is a variable of the pod template, so a restart keeps it.

    A StatefulSet replaces its pods from the highest number down to `partition`. So the instances are switched in that order, and an
    interrupted cutover leaves the others as they are.
    """

    told: Kubernetes

    @property
    def instances(self) -> Sequence[str]:
        """Pods, the highest number first; or Deployments."""
        if self.told.workload == "deployment":
            return self.file.instances
        return sorted(self.file.instances, key=_number, reverse=True)

    def switch(self, instance: str, *, group: str, old_group: str, since: str) -> None:
        """Set the variable, and let the workload replace this pod and those with higher numbers. Running it twice is safe.

        Raises:
            GuardError: if the file does not name exactly the pods of the StatefulSet, or they are replaced by hand.
        """
        del old_group, since
        variable = f"{self.told.variable}={group}"
        if self.told.workload == "deployment":
            self._kubectl("set", "env", f"deployment/{instance}", *self._container(), variable, of=instance)
            return
        there = self._checked()
        partition = there.partition
        if self._group_in(there.template) != group:
            # First no pod may be replaced: setting the variable would otherwise replace all of them.
            partition = there.start + there.replicas
            self._partition(partition, of=instance)
            name = f"statefulset/{self.told.name}"
            self._kubectl("set", "env", name, *self._container(), variable, of=instance)
        if partition > _number(instance):
            self._partition(_number(instance), of=instance)

    def healthy(self, instance: str, *, group: str) -> bool:
        """Whether the pod runs with the group and is ready, or the Deployment is rolled out."""
        try:
            if self.told.workload == "deployment":
                self._kubectl("rollout", "status", f"deployment/{instance}", "--timeout=1s", of=instance)
                return True
            pod = self._told(_Pod, "pod", instance)
        except SourceUnreachableError:
            return False
        ready = any(it.type == "Ready" and it.status == "True" for it in pod.status.conditions)
        return ready and pod.metadata.deletion is None and self._group_in(pod.spec) == group

    def _checked(self) -> _Workload:
        """The StatefulSet, if its pods can be switched one by one and the file names all of them."""
        there = self._told(_StatefulSet, "statefulset", str(self.told.name)).spec
        if there.strategy.type != "RollingUpdate":
            raise GuardError(
                f"The StatefulSet {self.told.name!r} has the update strategy {there.strategy.type}: pods are not replaced by number.",
                hint='Set updateStrategy to RollingUpdate first; or kind = "command", with a switch that deletes one pod.',
            )
        pods: set[str] = {f"{self.told.name}-{number}" for number in range(there.start, there.start + there.replicas)}
        named = set(self.file.instances)
        if pods != named:
            lacking, surplus = sorted(pods - named, key=_number), sorted(named - pods, key=_number)
            words = [f"does not name {listed(lacking)}"] if lacking else []
            words += [f"names {listed(surplus)}, which it does not have"] if surplus else []
            raise GuardError(
                f"The StatefulSet {self.told.name!r} has {plural(there.replicas, 'pod')}, and the fleet file {' and '.join(words)}.",
                hint="Name all of its pods in the fleet file, and keep it from being scaled until the cutover is done.",
            )
        return there

    def _told(self, model: type[M], kind: str, name: str) -> M:
        """What kubectl shows of an object.

        Raises:
            SourceUnreachableError: if it is something else.
        """
        words = ["get", f"{kind}/{name}"] if kind == "statefulset" else ["get", kind, name]
        text = self._kubectl(*words, "-o", "json", of=name)
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            start = one_line(text[:100]) or "nothing"
            raise SourceUnreachableError(
                f"{self.told.kubectl[0]} prints something else than the {kind} {name!r} "
                f"({first_problem(error, whole='the output')}): {start}",
                hint="It must print JSON and nothing else.",
            ) from None

    def _partition(self, number: int, *, of: str) -> None:
        patch = {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}}}
        self._kubectl("patch", f"statefulset/{self.told.name}", "--type=merge", "-p", json.dumps(patch), of=of)

    def _group_in(self, spec: _PodSpec) -> str | None:
        for container in spec.containers:
            if self.told.container in (None, container.name):
                for variable in container.env or []:
                    if variable.name == self.told.variable:
                        return variable.value
        return None

    def _container(self) -> list[str]:
        return [] if self.told.container is None else [f"--containers={self.told.container}"]

    def _kubectl(self, *words: str, of: str) -> str:
        command = [*self.told.kubectl, "--namespace", self.told.namespace, *words]
        return run_command(command, of=of, timeout_seconds=self.told.timeout_seconds)


def _number(pod: str) -> int:
    return int(pod.rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class SystemdFleet(RestartedFleet):
    """Units of this machine; a drop-in file has the group, so a restart and a reboot keep it."""

    told: Systemd

    def switch(self, instance: str, *, group: str, old_group: str, since: str) -> None:
        """Write the drop-in, and restart the unit. Running it twice is safe."""
        del old_group, since
        path = self._drop_in(instance)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, f'[Service]\nEnvironment="{self.told.variable}={_quoted(group)}"\n', durable=True)
        except OSError as error:
            raise SourceUnreachableError(
                f"{path} cannot be written: {error.strerror}.", hint="Run this as root."
            ) from None
        for words in (["daemon-reload"], ["restart", instance]):
            self._systemctl(*words, of=instance)

    def healthy(self, instance: str, *, group: str) -> bool:
        """Whether the unit is active, and its drop-in names the group."""
        try:
            text = self._drop_in(instance).read_text(encoding="utf-8")
            self._systemctl("is-active", "--quiet", instance, of=instance)
        except (OSError, SourceUnreachableError):
            return False
        return f'"{self.told.variable}={_quoted(group)}"' in text

    def _drop_in(self, instance: str) -> Path:
        unit = instance if "." in instance else f"{instance}.service"
        return Path(self.told.directory) / f"{unit}.d" / _DROP_IN

    def _systemctl(self, *words: str, of: str) -> None:
        run_command([*self.told.systemctl, *words], of=of, timeout_seconds=self.told.timeout_seconds)


def _quoted(group: str) -> str:
    """A value within quotes of a unit file; `%` begins a specifier there."""
    if any(ord(char) < 32 for char in group):
        raise ConfigError("The name of the group has a control character.")
    return group.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def make_fleet(file: FleetFile, *, ranges: RangeTable | None = None) -> ServiceFleet:
    """Make the adapter that the fleet file names.

    Args:
        ranges: of the plan, for fleets that can stop at their end.
    """
    if file.kind == "command" and file.command is not None:
        return CommandFleet(file, file.command)
    if file.kind == "kubernetes" and file.kubernetes is not None:
        return KubernetesFleet(file, file.kubernetes)
    if file.kind == "systemd":
        return SystemdFleet(file, file.systemd)
    return HttpFleet(file, ranges)
