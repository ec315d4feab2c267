"""Fleets that keep a switch by themselves: Kubernetes by kubectl, and systemd by a drop-in file. And the choice by the fleet file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError, SourceUnreachableError
from workbench.files import write_text
from workbench.replay.fleet import (
    Capabilities,
    CommandFleet,
    FleetFile,
    HttpFleet,
    Kubernetes,
    RangeTable,
    ServiceFleet,
    Systemd,
    run_command,
)

_DROP_IN = "workbench-group.conf"


@dataclass(frozen=True, slots=True)
class KubernetesFleet:
    """Pods of a StatefulSet or whole Deployments; the group is a variable of the pod template, so a restart keeps it.

    A StatefulSet replaces its pods from the highest number down to `partition`. So the instances are switched in that order, and an
    interrupted cutover leaves the others as they are.
    """

    file: FleetFile
    told: Kubernetes

    @property
    def can(self) -> Capabilities:
        """See `Fleet.can`."""
        return Capabilities(keeps_group=True)

    @property
    def instances(self) -> Sequence[str]:
        """Pods, the highest number first; or Deployments."""
        if self.told.workload == "deployment":
            return self.file.instances
        return sorted(self.file.instances, key=_number, reverse=True)

    def status(self, instance: str) -> None:
        """None: the gate checks the group, and `healthy` the pod."""
        del instance

    def switch(self, instance: str, *, group: str, old_group: str, since: str) -> None:
        """Set the variable, and let the workload replace this pod and those with higher numbers. Running it twice is safe."""
        del old_group, since
        variable = f"{self.told.variable}={group}"
        if self.told.workload == "deployment":
            self._kubectl("set", "env", f"deployment/{instance}", *self._container(), variable, of=instance)
            return
        name = f"statefulset/{self.told.name}"
        if self._template_group() != group:
            # First no pod may be replaced: setting the variable would otherwise replace all of them.
            self._partition(max(_number(it) for it in self.file.instances) + 1, of=instance)
            self._kubectl("set", "env", name, *self._container(), variable, of=instance)
        if self._partition_now() > _number(instance):
            self._partition(_number(instance), of=instance)

    def healthy(self, instance: str, *, group: str) -> bool:
        """Whether the pod runs with the group and is ready, or the Deployment is rolled out."""
        try:
            if self.told.workload == "deployment":
                self._kubectl("rollout", "status", f"deployment/{instance}", "--timeout=1s", of=instance)
                return True
            pod = json.loads(self._kubectl("get", "pod", instance, "-o", "json", of=instance))
        except (SourceUnreachableError, ValueError):
            return False
        ready = {it.get("type"): it.get("status") for it in pod.get("status", {}).get("conditions", [])}.get("Ready")
        return (
            ready == "True"
            and "deletionTimestamp" not in pod.get("metadata", {})
            and self._group_in(pod["spec"]) == group
        )

    def _template_group(self) -> str | None:
        return self._group_in(self._workload()["spec"]["template"]["spec"])

    def _partition_now(self) -> int:
        strategy = self._workload()["spec"].get("updateStrategy", {})
        return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)

    def _workload(self) -> Any:
        return json.loads(self._kubectl("get", f"statefulset/{self.told.name}", "-o", "json", of=str(self.told.name)))

    def _partition(self, number: int, *, of: str) -> None:
        patch = {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}}}
        self._kubectl("patch", f"statefulset/{self.told.name}", "--type=merge", "-p", json.dumps(patch), of=of)

    def _group_in(self, spec: Any) -> str | None:
        for container in spec.get("containers", []):
            if self.told.container in (None, container.get("name")):
                for variable in container.get("env") or []:
                    if variable.get("name") == self.told.variable:
                        return str(variable.get("value"))
        return None

    def _container(self) -> list[str]:
        return [] if self.told.container is None else [f"--containers={self.told.container}"]

    def _kubectl(self, *words: str, of: str) -> str:
        command = [*self.told.kubectl, "--namespace", self.told.namespace, *words]
        return run_command(command, of=of, timeout_seconds=self.told.timeout_seconds)


def _number(pod: str) -> int:
    return int(pod.rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class SystemdFleet:
    """Units of this machine; a drop-in file has the group, so a restart and a reboot keep it."""

    file: FleetFile
    told: Systemd

    @property
    def can(self) -> Capabilities:
        """See `Fleet.can`."""
        return Capabilities(keeps_group=True)

    @property
    def instances(self) -> Sequence[str]:
        """Names of the units."""
        return self.file.instances

    def status(self, instance: str) -> None:
        """None: the gate checks the group, and `healthy` the unit."""
        del instance

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
