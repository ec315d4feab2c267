"""The groups of one wave on the lab's broker: started, supervised, dealt with as planned, and captured."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evaluation.foreign import programs
from evaluation.foreign.spec import (
    INCIDENT_SECONDS,
    PROFILES,
    STEADY_SECONDS,
    THRESHOLDS,
    WINDOW_SECONDS,
    Behaviour,
    Deed,
    Plan,
)
from evaluation.foreign.traffic import pauses
from workbench.collect.capture import write_capture
from workbench.collect.capture_in_memory import collect
from workbench.errors import SetupError
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab import process
from workbench.lab.client_spec import Traffic, write
from workbench.lab.lab import LAG_PROFILES, Lab
from workbench.lab.lab_broker import add_partitions, create_topic, delete_records, move_commits
from workbench.window import Window

_STABLE_SECONDS = 60.0
_SETTLE_SECONDS = 40.0  # a broker's first minute is slow
_QUOTA_SECONDS = 30.0
_BACK_SECONDS = 2.0  # until what has died is started again


@dataclass(slots=True)
class Group:
    """One group's processes, and who of them should run."""

    lab: Lab
    plan: Plan
    folder: Path
    builds: Path
    traffic: Path  # the folder of what is sent
    ports: list[int] = field(default_factory=list)
    running: dict[int, process.Child] = field(default_factory=dict)
    wanted: set[int] = field(default_factory=set)
    died_at: dict[int, float] = field(default_factory=dict)
    left: list[Deed] = field(default_factory=list)
    started: datetime | None = None
    broken: bool = False

    def start(self) -> None:
        """Topic and members; the traffic begins when they are stable."""
        self.folder.mkdir(parents=True)
        create_topic(self.lab.bootstrap, self.plan.topic, self.plan.partitions)
        self.ports = process.free_ports(self.plan.members)
        self.behave(self.plan.behaviour)
        self.left = sorted(self.plan.deeds, key=lambda it: it.at)
        for number in range(self.plan.members):
            self.launch(number)
        self.lab.watch(self.plan.group, [f"127.0.0.1:{port}" for port in self.ports])

    def behave(self, behaviour: Behaviour) -> None:
        """Change how the handlers behave, from now on."""
        write(self.folder / "behaviour.json", behaviour)

    def send(self, traffic: Traffic) -> None:
        """What arrives from now on."""
        write(self.traffic / f"{self.plan.group}.json", traffic)

    def launch(self, number: int) -> None:
        """Start a member, on the page that it had before."""
        plan, name = self.plan, self.plan.client_id(number)
        if (before := self.running.get(number)) is not None:
            before.stop(seconds=5.0)
        client = plan.client.model_copy(
            update={
                "bootstrap": self.lab.bootstrap,
                "group": plan.group,
                "topic": plan.topic,
                "client_id": name,
                "metrics_port": str(self.ports[number]),
            }
        )
        config = self.folder / f"{name}.json"
        write(config, client)
        words = programs.command(plan.library, self.builds, config, self.folder / "behaviour.json")
        self.running[number] = process.start(name, words, folder=self.folder)
        self.wanted.add(number)

    def supervise(self) -> None:
        """Start again what has died by itself, after a while."""
        for number in self.wanted:
            if self.running[number].alive:
                self.died_at.pop(number, None)
            elif time.monotonic() - self.died_at.setdefault(number, time.monotonic()) >= _BACK_SECONDS:
                self.launch(number)

    def act(self, since: float) -> None:
        """Do what is due, so many seconds after the healthy time; before it, the number is negative."""
        while self.left and self.left[0].at <= since:
            self.do(self.left.pop(0))

    def do(self, deed: Deed) -> None:
        """Do one of the deeds."""
        match deed.what:
            case "behave":
                self.behave(deed.value)
            case "traffic":
                self.send(deed.value)
            case "quota":
                self._limit(deed.value)
            case "stop":
                self._end(deed.value, orderly=True)
            case "kill":
                self._end(deed.value, orderly=False)
            case "start":
                for number in deed.value:
                    self.launch(number)
            case "freeze":
                self._signal(deed.value, signal.SIGSTOP)
            case "thaw":
                self._signal(deed.value, signal.SIGCONT)
            case "forward":
                self._move(self._ends())
            case "rewind":
                self._move(dict.fromkeys(self._ends(), 0))
            case "expire":
                self._expire()
            case "grow":
                add_partitions(self.lab.bootstrap, self.plan.topic, deed.value)

    def _ends(self) -> dict[int, int]:
        ends = KafkaCluster(self.lab.bootstrap).snapshot(groups=[self.plan.group]).ends
        return {part: end for (topic, part), end in ends.items() if topic == self.plan.topic}

    def _move(self, target: dict[int, int]) -> None:
        move_commits(self.lab.bootstrap, self.plan.group, self.plan.topic, target)

    def _expire(self) -> None:
        found = KafkaCluster(self.lab.bootstrap).snapshot(groups=[self.plan.group])
        middle = {
            part: (offset + found.ends[topic, part]) // 2
            for (_, topic, part), offset in found.commits.items()
            if offset is not None
        }
        delete_records(self.lab.bootstrap, self.plan.topic, middle)

    def _signal(self, numbers: Sequence[int], what: signal.Signals) -> None:
        for number in numbers:
            if self.running[number].alive:
                self.running[number].popen.send_signal(what)

    def _limit(self, quota: int) -> None:
        names = [self.plan.client_id(number) for number in range(self.plan.members)]
        words: list[str | Path] = [self.builds / "go" / "foreign", "quota", self.lab.bootstrap, str(quota), *names]
        if process.run_within(_QUOTA_SECONDS, words) != 0:
            raise SetupError(f"The quota of {self.plan.group} could not be set.")

    def _end(self, numbers: Sequence[int], *, orderly: bool) -> None:
        self.wanted -= set(numbers)
        for number in numbers:
            child = self.running[number]
            if orderly:
                child.popen.terminate()
            else:
                child.kill()

    def stable(self, views: dict[str, int]) -> bool:
        """Whether every partition has a member, and every member is there."""
        return views.get(self.plan.group) == self.plan.partitions

    def capture(self) -> None:
        """Write what Prometheus and Kafka have of it."""
        end = datetime.now(UTC)
        window = Window(baseline_start=self.started or end, start=end - timedelta(seconds=WINDOW_SECONDS), end=end)
        cluster = self.lab.cluster(profiles=[*LAG_PROFILES, str(PROFILES[self.plan.library])])
        found = collect(cluster, window, thresholds=THRESHOLDS, groups=[self.plan.group])
        write_capture(self.folder.parent / "capture", found)

    def stop(self) -> None:
        """End everything."""
        self.wanted.clear()
        self._signal(list(self.running), signal.SIGCONT)  # what is frozen does not hear that it shall end
        for child in self.running.values():
            if child.alive:
                child.popen.terminate()
        for child in self.running.values():
            child.stop(seconds=3.0)
        self.lab.forget(self.plan.group)


class Caretaker:
    """Does what is due and starts again what has died, in a thread, until the last capture is written.

    Args:
        faults_at: when the healthy time ends (s, monotonic).
    """

    def __init__(self, groups: Sequence[Group], faults_at: float) -> None:
        self._groups = groups
        self._over = threading.Event()
        self._faults_at = faults_at
        self._thread = threading.Thread(target=self._run, name="caretaker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the groups alone."""
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._over.wait(0.25):
            for group in self._groups:
                try:
                    group.act(time.monotonic() - self._faults_at)
                    group.supervise()
                except Exception:  # one that breaks is told; the others go on
                    traceback.print_exc()
                    group.broken = True


def record(lab: Lab, plans: Sequence[Plan], out: Path, builds: Path) -> list[str]:
    """Record these groups side by side; the names of those that could not be recorded.

    Each has its truth on disk before its processes start.

    Raises:
        SetupError: if a group does not become stable, or nothing is sent any more.
    """
    for plan in plans:
        (out / plan.name).mkdir(parents=True)
        _tell(out / plan.name, plan.truth())
    traffic = lab.folder / "traffic"
    traffic.mkdir()
    groups = [Group(lab, plan, out / plan.name / "fleet", builds, traffic) for plan in plans]
    children: list[process.Child] = []
    caretaker: Caretaker | None = None
    try:
        for group in groups:
            group.start()
        _wait_until_stable(lab, groups)
        for group in groups:
            group.send(group.plan.traffic)
        words: list[str | Path] = [sys.executable, "-m", "evaluation.foreign.traffic", lab.bootstrap, traffic]
        children.append(process.start("traffic", words, folder=lab.folder, env={"PYTHONPATH": str(Path.cwd())}))
        caretaker = Caretaker(groups, time.monotonic() + _SETTLE_SECONDS + STEADY_SECONDS)
        time.sleep(_SETTLE_SECONDS)
        began = time.time()
        for group in groups:
            group.started = datetime.now(UTC)
        time.sleep(STEADY_SECONDS)
        print("  the faults begin", file=sys.stderr, flush=True)
        time.sleep(INCIDENT_SECONDS)
        if not all(child.alive for child in children):
            raise SetupError("The traffic has ended before the recordings.", hint=f"Its log is in {lab.folder}.")
        failed = []
        for group in groups:
            if not _captured(group) or group.broken:
                failed.append(group.plan.name)
            # Told by the traffic's own clock: where the machine stood still, the truth may not be what was drawn.
            _tell(out / group.plan.name, {**group.plan.truth(), "pauses_seconds": pauses(traffic, began)})
        return failed
    finally:
        if caretaker is not None:
            caretaker.stop()
        for child in children:
            child.stop()
        for group in groups:
            group.stop()


def _tell(folder: Path, truth: dict[str, Any]) -> None:
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def _captured(group: Group) -> bool:
    try:
        group.capture()
    except Exception:  # one that breaks is told; the others go on
        traceback.print_exc()
        return False
    return True


def _wait_until_stable(lab: Lab, groups: Sequence[Group]) -> None:
    kafka, deadline = KafkaCluster(lab.bootstrap), time.monotonic() + _STABLE_SECONDS
    while time.monotonic() < deadline:
        views = kafka.snapshot(groups=None).groups
        owned = {
            view.group: len({part for member in view.members for part in member.partitions})
            for view in views
            if view.state == "stable"
        }
        if all(group.stable(owned) for group in groups):
            return
        time.sleep(1.0)
    late = [group.plan.name for group in groups if not group.stable(owned)]
    raise SetupError(f"These groups were not stable after {_STABLE_SECONDS:.0f} s: {', '.join(late)}.")
