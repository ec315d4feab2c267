"""Fleet of a service: status and switch of its instances. Two adapters: the runtime's HTTP API, and command templates."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import requests
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError

from workbench.errors import ConfigError, NoAnswerError, SourceUnreachableError
from workbench.http_client import WebSession, cause
from workbench.humanize import one_line
from workbench.limited_reads import first_problem, read_toml
from workbench.masking import remember, secrets_in_url
from workbench.settings_interpolation import from_environment

RangeTable = Mapping[str, Mapping[int, Sequence[tuple[int, int]]]]

_MAX_ANSWER_BYTES = 50_000_000
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,200}")
_NAMES = ("instance", "group", "old_group", "since")
_PROXY_ANSWERS = (502, 504)  # status codes of a proxy that forwarded the request and does not know the result
_WORKLOAD = re.compile(r"(deploy|deployment|sts|statefulset|ds|daemonset|rs|replicaset)s?(\.apps)?(/|$)")
_CHANGES = ("set", "patch", "edit", "apply", "replace", "scale", "delete")  # of kubectl
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")  # other braces, as in JSON for `kubectl patch`, are kept


def check_placeholders(words: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a template with an unknown placeholder.

    Raises:
        ValueError: naming the argument.
    """
    for word in words:
        for name in _PLACEHOLDER.findall(word):
            if name not in known:
                raise ValueError(f"{word!r} has the unknown placeholder {{{name}}}. Placeholders: {', '.join(known)}")


class _Part(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True, allow_inf_nan=False)


class RuntimeHealth(_Part):
    """Criteria for a healthy batch."""

    timeout_seconds: float = Field(default=180.0, gt=0, description="Time limit of one batch; then the cutover stops.")
    settle_seconds: float = Field(
        default=5.0, gt=0, description="Time during which the members of the group must not change."
    )
    max_rebalances: int = Field(
        default=10, ge=1, description="More rebalances than this in one batch are a rebalance storm."
    )
    lag_growth_ratio: float = Field(
        default=0.1,
        ge=0,
        description="The new group may fall behind by this share of the produced messages, because commits come late.",
    )


class Commands(_Part):
    """Command templates, as lists of words; no shell is involved. {instance}, {group}, {old_group} and {since} are filled in."""

    switch: list[str] = Field(
        min_length=1, description="Switch an instance to another group and restart it. Running it twice must be safe."
    )
    check: list[str] | None = Field(
        default=None, description="Exits with 0 once the instance is healthy. Placeholders: {instance} and {group}."
    )
    timeout_seconds: float = Field(default=300.0, gt=0)


class Kubernetes(_Part):
    """Pods of a StatefulSet, switched one by one from the highest number down; or whole Deployments."""

    workload: Literal["statefulset", "deployment"] = "statefulset"
    name: str | None = Field(default=None, description="Name of the StatefulSet; its pods are the instances.")
    namespace: str = "default"
    variable: str = Field(
        default="WORKBENCH_RUNTIME_GROUP",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable of the container with the name of the group.",
    )
    container: str | None = Field(default=None, description="Container with the variable; none: all containers.")
    kubectl: list[str] = Field(
        default=["kubectl"], min_length=1, description="The command, with options such as --context."
    )
    timeout_seconds: float = Field(default=60.0, gt=0)


class Systemd(_Part):
    """Units of this machine: a drop-in file sets the variable, so that a restart keeps the group."""

    directory: str = Field(default="/etc/systemd/system", description="Folder of the units' drop-in folders.")
    variable: str = Field(default="WORKBENCH_RUNTIME_GROUP", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    systemctl: list[str] = Field(default=["systemctl"], min_length=1)
    timeout_seconds: float = Field(default=120.0, gt=0)


class FleetFile(_Part):
    """Content of `fleet.toml`."""

    kind: Literal["http", "command", "kubernetes", "systemd"]
    instances: list[str] = Field(
        min_length=1, description="http: the URLs of the admin API; command: names for {instance}."
    )
    token: str | None = Field(
        default=None, repr=False, description="Bearer token; ${NAME} takes it from the environment."
    )
    batch_size: int = Field(default=1, ge=1, description="Instances per batch, after the first one.")
    pause_seconds: float = Field(default=0.0, ge=0, description="Pause between batches.")
    members_per_instance: int = Field(default=1, ge=1, description="command: number of consumers in each instance.")
    max_bytes_per_second: int | None = Field(default=None, ge=1, description="http: read limit of one instance.")
    request_timeout_seconds: float = Field(default=10.0, gt=0)
    command: Commands | None = None
    kubernetes: Kubernetes | None = None
    systemd: Systemd = Systemd()
    persist: list[str] | Literal["elsewhere"] | None = Field(
        default=None,
        description='http: command that makes the new group survive a restart of an instance, run before its switch; or "elsewhere", '
        "if you have set it where the instances read their settings.",
    )
    persist_timeout_seconds: float = Field(default=60.0, gt=0)
    health: RuntimeHealth = RuntimeHealth()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(set(self.instances)) != len(self.instances):
            raise ValueError("instances lists an instance twice")
        if self.kind == "command":
            if self.command is None:
                raise ValueError("kind is command, but there is no [command]")
            check_placeholders(self.command.switch, _NAMES)
            check_placeholders(self.command.check or [], _NAMES[:2])
        if isinstance(self.persist, list):
            check_placeholders(self.persist, _NAMES)
        if self.kind == "kubernetes":
            told = self.kubernetes
            if told is None or (told.workload == "statefulset") != (told.name is not None):
                raise ValueError(
                    "kind is kubernetes: [kubernetes] needs a name for a StatefulSet, and none for Deployments"
                )
            if told.name is not None and any(
                not re.fullmatch(re.escape(told.name) + r"-\d+", it) for it in self.instances
            ):
                raise ValueError("the instances of a StatefulSet are its pods: name-0, name-1, …")
        if self.kind == "systemd" and any(not _UNIT.fullmatch(it) for it in self.instances):
            raise ValueError("with kind systemd every instance must be the name of a unit")
        if self.persist == []:
            raise ValueError("persist has no words")
        if isinstance(self.persist, list) and (rolls := _rolls_out(self.persist)) is not None:
            raise ValueError(
                f"persist must only store the group, but {rolls} replaces the whole workload before the first instance was checked. "
                'Use switch_file in the settings of the runtime, or a ConfigMap; or kind = "kubernetes"'
            )
        remember(self.token, *(it for url in self.instances for it in secrets_in_url(url)))
        if self.kind == "http" and any(not url.startswith(("http://", "https://")) for url in self.instances):
            raise ValueError("with kind http every instance must be a URL")
        return self


def _rolls_out(words: Sequence[str]) -> str | None:
    """The part of a command that makes Kubernetes replace a workload's instances; None if none is known to."""
    parts = " ".join(words).split()  # a shell has its command in one word
    programs = {part.rpartition("/")[2] for part in parts}
    if "helm" in programs:
        return "'helm'"
    if not programs & {"kubectl", "oc"}:
        return None
    if "rollout" in parts and "restart" in parts:
        return "'rollout restart'"
    workload = next((found[1] for part in parts if (found := _WORKLOAD.match(part)) is not None), None)
    change = next((part for part in parts if part in _CHANGES), None)
    return f"{change!r} of a {workload}" if change is not None and workload is not None else None


def read_fleet(path: Path) -> FleetFile:
    """Read and check a fleet file.

    Raises:
        ConfigError: naming the field that is wrong.
    """
    values = from_environment(read_toml(path, what="The fleet file"), path)
    try:
        return FleetFile.model_validate(values)
    except ValidationError as error:
        raise ConfigError(
            f"{path}: {first_problem(error, whole='the file')}.",
            hint=f"A fleet file has: {', '.join(FleetFile.model_fields)}. docs/replay.md, The cutover, has an example.",
        ) from None


class _Answer(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", frozen=True)


class HeldPartition(_Answer):
    """A partition assigned to an instance."""

    topic: str
    partition: int
    first_offset: int | None = None
    committed: int | None = None
    completed: int | None = None


class MemberStatus(_Answer):
    """One consumer of an instance."""

    member: str
    partitions: list[HeldPartition] = []


class InstanceStatus(_Answer):
    """Status of an instance (`GET /status`)."""

    client_id: str
    group: str
    state: str
    rebalances: int = 0
    processed: int = 0
    members: list[MemberStatus] = []
    keeps_switch: bool = False
    switch_error: str | None = None  # why the last switch was not made
    ranges_complete: bool | None = None  # None: it has no ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a kind of fleet can do; the cutover asks for these, never for the kind's name.

    Attributes:
        keeps_group: the switch itself survives a restart of an instance.
        limits_bytes: takes `max_bytes_per_second`.
        stops_at_ranges: ends at the ranges of a plan.
    """

    keeps_group: bool = False
    limits_bytes: bool = False
    stops_at_ranges: bool = False


class ServiceFleet(Protocol):
    """Instances of a service."""

    @property
    def can(self) -> Capabilities:
        """What it can do."""

    @property
    def instances(self) -> Sequence[str]:
        """Their names or URLs."""

    def status(self, instance: str) -> InstanceStatus | None:
        """Status of an instance; None if this adapter has none. Raises `SourceUnreachableError` if it does not answer."""

    def switch(self, instance: str, *, group: str, old_group: str, since: str) -> None:
        """Switch an instance to a group.

        Raises:
            NoAnswerError: if it is unknown whether it switches.
            SourceUnreachableError: if it does not switch.
            GuardError: if others would switch with it; nothing is changed then.
        """

    def healthy(self, instance: str, *, group: str) -> bool:
        """Whether its health command passes; true without one."""


@dataclass(frozen=True, slots=True)
class HttpFleet:
    """Fleet with the runtime's HTTP API.

    Attributes:
        ranges: of the plan; the instances process only these, and end.
    """

    file: FleetFile
    ranges: RangeTable | None = None

    @property
    def can(self) -> Capabilities:
        """See `Fleet.can`: an instance keeps its switch in memory, unless its status says that it has a file for it."""
        return Capabilities(limits_bytes=True, stops_at_ranges=True)

    @property
    def instances(self) -> Sequence[str]:
        """Their URLs."""
        return self.file.instances

    def status(self, instance: str) -> InstanceStatus:
        """See `Fleet.status`."""
        answer = self._ask("GET", instance, "/status")
        try:
            return InstanceStatus.model_validate_json(answer)
        except ValidationError as error:
            field = first_problem(error, whole="its content").field
            raise SourceUnreachableError(
                f"{instance} answers /status with an unexpected document: {field} is missing or wrong."
            ) from None

    def switch(self, instance: str, *, group: str, old_group: str, since: str) -> None:
        """See `Fleet.switch`."""
        del old_group
        order: dict[str, Any] = {"group": group, "since": since, "max_bytes_per_second": self.file.max_bytes_per_second}
        if self.ranges is not None:
            order["ranges"] = self.ranges
        self._ask("POST", instance, "/replay", order)

    def pause(self, instance: str) -> None:
        """See `Pausable.pause`."""
        self._ask("POST", instance, "/drain", {})

    def go_on(self, instance: str) -> None:
        """See `Pausable.go_on`."""
        self._ask("POST", instance, "/resume", {})

    def healthy(self, instance: str, *, group: str) -> bool:
        """See `Fleet.healthy`; the gate checks its state."""
        del instance, group
        return True

    def _ask(self, method: str, instance: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        url = instance.rstrip("/") + path
        headers = {"Authorization": f"Bearer {self.file.token}"} if self.file.token else {}
        try:
            with WebSession(
                deadline_seconds=self.file.request_timeout_seconds,
                max_bytes=_MAX_ANSWER_BYTES,
                headers=headers,
                by_proxy=False,  # the environment's proxy must not see the token
            ) as session:
                answer = session.request(method, url, json=body, allow_redirects=False)
                content = answer.content
        except (requests.RequestException, HTTPError, OSError) as error:
            late = isinstance(error, requests.Timeout | TimeoutError | ReadTimeoutError)
            reason = "no answer in time" if late else cause(error)
            kind = SourceUnreachableError if _is_unsent(error) else NoAnswerError
            raise kind(f"The instance {instance} does not answer: {reason}.", hint="Is it running?") from None
        if answer.status_code in (401, 403):
            raise SourceUnreachableError(
                f"The instance {instance} refuses the token.", hint='Set it in fleet.toml: token = "${NAME}".'
            )
        if not 200 <= answer.status_code < 300:
            words = one_line(content[:200].decode(errors="replace"))
            kind = NoAnswerError if answer.status_code in _PROXY_ANSWERS else SourceUnreachableError
            raise kind(f"The instance {instance} answers {method} {path} with {answer.status_code}: {words}")
        return content


@dataclass(frozen=True, slots=True)
class RestartedFleet:
    """Instances that a switch restarts, and that then take their group from where the switch has put it. They tell no status."""

    file: FleetFile

    @property
    def can(self) -> Capabilities:
        """See `Fleet.can`."""
        return Capabilities(keeps_group=True)

    @property
    def instances(self) -> Sequence[str]:
        """Their names."""
        return self.file.instances

    def status(self, instance: str) -> None:
        """None: the gate checks the group instead."""
        del instance


@dataclass(frozen=True, slots=True)
class CommandFleet(RestartedFleet):
    """Fleet with commands: kubectl, systemctl, your own script."""

    commands: Commands

    def switch(self, instance: str, *, group: str, old_group: str, since: str) -> None:
        """See `Fleet.switch`."""
        self._run(self.commands.switch, {"instance": instance, "group": group, "old_group": old_group, "since": since})

    def healthy(self, instance: str, *, group: str) -> bool:
        """See `Fleet.healthy`."""
        if self.commands.check is None:
            return True
        try:
            self._run(self.commands.check, {"instance": instance, "group": group})
        except SourceUnreachableError:
            return False
        return True

    def _run(self, template: Sequence[str], values: dict[str, str]) -> None:
        run_template(template, values, timeout_seconds=self.commands.timeout_seconds)


def run_template(template: Sequence[str], values: Mapping[str, str], *, timeout_seconds: float) -> None:
    """Run a command of the fleet file for an instance, without a shell.

    Raises:
        ConfigError: if there is no such program. SourceUnreachableError: if it fails. NoAnswerError: if it does not end in time.
    """
    command = [_PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word) for word in template]
    run_command(command, of=values["instance"], timeout_seconds=timeout_seconds)


def run_command(command: Sequence[str], *, of: str, timeout_seconds: float) -> str:
    """Run a program, and return what it prints.

    Raises:
        ConfigError, SourceUnreachableError, NoAnswerError: as `run_template`.
    """
    try:
        ended = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout_seconds,
            check=False,
            encoding="utf-8",
        )
    except FileNotFoundError:
        raise ConfigError(f"The command {command[0]!r} of the fleet file does not exist.") from None
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"The command {command[0]!r} did not finish in time.") from None
    except OSError as error:
        raise SourceUnreachableError(f"The command {command[0]!r} failed: {error.strerror}.") from None
    if ended.returncode != 0:
        last = one_line((ended.stderr.strip() or ended.stdout.strip() or "no output").splitlines()[-1])
        raise SourceUnreachableError(f"The command {command[0]!r} for {of} ended with {ended.returncode}: {last}")
    return ended.stdout


def _is_unsent(error: Exception) -> bool:
    """Whether the request certainly did not reach the instance: no connection, or TLS failed."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    unsent = (requests.ConnectTimeout, requests.exceptions.SSLError, requests.exceptions.InvalidURL)
    return isinstance(error, unsent) or isinstance(reason, NewConnectionError)
