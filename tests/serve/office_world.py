"""A world for serve's messages: groups that fall ill and recover, alerts, mutes, targets that are away, two instances, a clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.serve.serving import Clock, alert, judged, webhook
from workbench.alerts import parse_alerts
from workbench.serve import alert_messages
from workbench.serve.alert_journal import accept
from workbench.serve.judge_groups import Question
from workbench.serve.kept_verdict import Judged
from workbench.serve.outbox import Parcel
from workbench.serve.send_message import NotTakenError
from workbench.serve.server_database import LeadLostError, Store
from workbench.serve.worker import Worker
from workbench.serve_settings import ServeSettings, Target

CHAT = Target(name="chat", kind="slack", url="http://127.0.0.1:9/a-secret-path")
MANAGER = Target(name="manager", kind="alertmanager", url="http://127.0.0.1:9")
GROUPS = tuple(f"g{number}" for number in range(7))
SECRETIVE = "g6"  # muted whenever it lags, so nobody may ever hear of it
VERDICTS = ("healthy", "slow_processor", "hot_partition", "stuck_partition", "cannot_tell", "gone")
FIRST = ("new", "digest", "healthy", "ended")
ENDS = ("recovered", "healthy", "ended")
QUIET = 300.0


@dataclass
class Health:
    """What a triage would say of a group."""

    verdict: str = "slow_processor"
    own_cause: bool = True
    muted: bool = False
    poisoned: bool = False


@dataclass
class Box:
    """What a target has taken: each message once, whatever was doubled."""

    up: bool = True
    messages: list[Parcel] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    ends_at: dict[str, float] = field(default_factory=dict)  # of alerts of an Alertmanager


class World:
    """Two instances with one database; `lead` is the number of the one that leads."""

    def __init__(self, make: Callable[[Clock], tuple[Store, Store]]) -> None:
        self.clock, self.health = Clock(), {name: Health() for name in GROUPS}
        self.boxes = {it.name: Box() for it in (CHAT, MANAGER)}
        self.alerts: dict[tuple[str, int], str] = {}
        self.meanwhile: Callable[[], None] | None = None
        self.settings = ServeSettings(targets=[CHAT, MANAGER], gather="PT0S", quiet="PT5M", look_again="PT1M")
        self.stores = make(self.clock)
        self.workers = [
            Worker(it, self._judge, self.settings, sender=self._take, clusters=lambda: {"prod": None})
            for it in self.stores
        ]
        self.lead = 0
        self.workers[0].take_lead()

    def close(self) -> None:
        for store in self.stores:
            store.close()

    @property
    def worker(self) -> Worker:
        return self.workers[self.lead]

    def _judge(self, question: Question) -> Sequence[Judged]:
        found = []
        for name in question.groups or GROUPS:
            it = self.health.get(name, Health())
            if it.verdict == "gone":
                continue
            values: dict[str, Any] = {"cause": f"{it.verdict}-{name if it.own_cause else 'shared'}"}
            if it.verdict != "healthy" and (it.muted or name == SECRETIVE):
                values["muted"] = "until later"
            if it.poisoned:
                values |= {"lag_messages": 2**64 - 1, "time_lag_seconds": float("inf"), "headline": object()}
            found.append(judged(name, verdict=it.verdict, **values))
        if self.meanwhile is not None:
            run, self.meanwhile = self.meanwhile, None
            run()
        return found

    def _take(self, parcel: Parcel, target: Target, _url: str | None) -> None:
        box = self.boxes[target.name]
        if not box.up:
            raise NotTakenError("it is away", passing=True)
        if target.kind == "alertmanager":
            [posted] = alert_messages.alertmanager(parcel, None, now=datetime.fromtimestamp(self.clock.now, UTC))
            ends = datetime.fromisoformat(posted["endsAt"]).timestamp()
            box.ends_at[parcel.message.incident] = ends if ends > self.clock.now else 0.0
        if parcel.key not in box.keys:
            box.keys.add(parcel.key)
            box.messages.append(parcel)

    # What happens

    def alert(self, group: str, number: int, status: str) -> None:
        """An alert fires, fires on, or ends; one without a group is about the whole cluster."""
        if status == "resolved" and (group, number) not in self.alerts:
            return
        self.alerts[group, number] = status
        topic = "orders" if group else ""
        text = webhook({**alert(group, topic, number=number), "status": status, "fingerprint": f"{group}-{number}"})
        accept(self.worker.store, parse_alerts(text), cluster=None, most_waiting=10_000)

    def judge(self) -> None:
        """One turn of the judging thread."""
        for worker in self.workers:
            worker._look_at.clear()
            worker._fleet_at.clear()
        self._step(lambda: self.worker.judge_alerts() or self.worker.look_again() or self.worker.judge_fleet())

    def watch(self) -> None:
        """One turn of the watching thread."""
        self._step(self.worker.pass_on_late)
        self._step(self.worker.tell_due)
        self._step(self.worker._forget)

    def send(self) -> None:
        """Send all that is due."""
        for target in self.settings.targets:
            while self.worker.send_one(target):
                pass

    def _step(self, step: Callable[[], object]) -> None:
        worker = self.worker
        before = self._ended()
        try:
            step()
        except LeadLostError:
            assert self.worker is not worker, "the lead was lost, though nobody has taken it"
        firing = {group for (group, _), status in self.alerts.items() if status == "firing"}
        for incident in self._ended() - before:
            rows = self.worker.store.rows("SELECT grp FROM member WHERE incident = ?", (incident,))
            about = {row["grp"] for row in rows}
            assert not (firing & about or (about and "" in firing)), f"{incident} was closed, though {firing} fire"

    def _ended(self) -> set[str]:
        return {row["id"] for row in self.worker.store.rows("SELECT id FROM incident WHERE ending = 'ended'")}

    def take_over(self) -> None:
        """The leader is frozen: it goes on later, and does not know yet that another instance leads."""
        self.workers[self.lead].store.resign()
        self.lead = 1 - self.lead
        self.workers[self.lead]._leading.clear()
        self.workers[self.lead].take_lead()

    def take_over_in_a_triage(self) -> None:
        """The frozen one measured before; meanwhile the other one works; then it wakes up and writes what it has found."""
        frozen = self.worker
        state = self._incidents()

        def meanwhile() -> None:
            self.take_over()
            for it in self.health.values():
                it.poisoned, it.verdict = False, "stuck_partition" if it.verdict == "healthy" else "healthy"
            nonlocal state
            self.judge()
            state = self._incidents()

        self.meanwhile = meanwhile
        self.clock.now += 61
        frozen._look_at.clear()
        with suppress(LeadLostError):
            _ = frozen.judge_alerts() or frozen.look_again() or frozen.judge_fleet()
        if self.meanwhile is None:
            assert self._incidents() == state, "an instance without the lead has changed incidents"
        self.meanwhile = None

    def _incidents(self) -> list[tuple[Any, ...]]:
        rows = self.worker.store.rows("SELECT id, verdict, closed, revision FROM incident ORDER BY id")
        return [tuple(row) if not hasattr(row, "_values") else tuple(row._values) for row in rows]

    # What must be true

    def check_order(self) -> None:
        """Each incident is begun once for each target, before all else, and nothing follows its end; mutes are kept."""
        for name, box in self.boxes.items():
            begun: set[str] = set()
            own: set[str] = set()  # told in a message of their own
            over: set[str] = set()
            last: dict[str, int] = {}
            for message in (it.message for it in box.messages):
                where = f"{name}: {message.kind} of {message.incident}"
                lags = [f"{SECRETIVE} is {verdict}" for verdict in VERDICTS if verdict != "healthy"]
                text = " ".join([*(line for _, _, line in message.members), *message.others])
                assert not any(it in text for it in lags), f"{where} names a muted group"
                if message.kind != "ends":
                    assert message.incident not in over, f"{where} after its end"
                assert message.revision > last.get(message.incident, 0), f"{where} is overtaken"
                last[message.incident] = message.revision
                if message.kind in FIRST and message.incident not in begun:
                    begun.add(message.incident)
                else:
                    assert message.kind != "new" and (message.kind, message.incident in own) != ("digest", True), (
                        f"{where} again"
                    )
                    assert message.incident in begun, f"{where} before its beginning"
                if message.kind == "digest":  # one that was only named is named again if it has grown
                    assert not own & set(message.other_incidents), f"{where} names some again"
                    begun |= set(message.other_incidents)
                if message.kind != "ends":
                    own.add(message.incident)
                if message.kind == "ends":
                    assert begun >= set(message.other_incidents) and not over & set(message.other_incidents), where
                    over |= set(message.other_incidents)
                if message.kind in ("healthy", "ended"):
                    over.add(message.incident)

    def settle(self) -> None:
        """Let things calm down, and compare what everybody knows with what is true."""
        for box in self.boxes.values():
            box.up = True
        for it in self.health.values():
            it.poisoned = False
        for _ in range(26):
            self.clock.now += 61
            for _ in range(3):
                self.judge()
            self.watch()
            self.send()
        self.check_order()
        rows = self.worker.store.rows
        assert not rows("SELECT * FROM alert WHERE state = 'waiting'")
        assert not rows("SELECT * FROM alert WHERE incident IS NULL")
        assert not rows("SELECT * FROM incident WHERE closed IS NULL AND cause = 'late'"), "a verdict never came"
        assert not rows("SELECT * FROM outbox WHERE state <> 'sent'")
        for row in rows("SELECT * FROM incident"):
            members = rows("SELECT * FROM member WHERE incident = ? AND muted IS NULL", (row["id"],))
            for name, box in self.boxes.items():
                self._is_known(name, box, row, members)

    def _is_known(self, name: str, box: Box, row: Any, members: Sequence[Any]) -> None:
        incident, closed = row["id"], row["closed"] is not None
        where = f"{name} about {incident} ({row['verdict']}, {'closed: ' + str(row['ending']) if closed else 'open'})"
        own = [it.message for it in box.messages if it.message.incident == incident and it.message.kind != "ends"]
        named = [
            it.message for it in box.messages if it.message.kind == "digest" and incident in it.message.other_incidents
        ]
        if members:
            assert own or named, f"{where}: never told"
        if own and closed:
            assert own[-1].kind in ENDS or own[-1].kind == "digest", (
                f"{where}: its end was not told: {[it.kind for it in own]}"
            )
        if named and not own:
            line = named[-1].others[named[-1].other_incidents.index(incident)]
            more = re.search(r" and ([0-9,]+) more: ", line)
            number = 1 + int(more[1].replace(",", "")) if more is not None else 1
            assert closed or number >= len(members), f"{where}: {len(members)} members, and {number} were named"
        if named and closed and not own:
            ended = any(incident in it.message.other_incidents for it in box.messages if it.message.kind == "ends")
            assert ended or line.startswith("over: "), f"{where}: its end was not told"
        sick = [it for it in members if it["state"] != "healthy"]
        if own and not closed and sick:
            assert own[-1].kind not in ENDS, f"{where}: told as over"
            assert own[-1].verdict in {it["verdict"] for it in sick}, f"{where}: {own[-1].verdict}"
            told = {group for message in own for group, _, _ in message.members}
            assert {it["grp"] for it in sick} <= told, f"{where}: members were not told"
        if name == MANAGER.name and members:
            fires = box.ends_at.get(incident, 0.0) > self.clock.now
            assert fires == bool(sick and not closed), (
                f"{where}: WorkbenchVerdict {'fires' if fires else 'does not fire'}"
            )
        if name == MANAGER.name and closed:
            assert box.ends_at.get(incident, 0.0) <= self.clock.now, f"{where}: WorkbenchVerdict fires"
