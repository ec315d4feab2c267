"""Parsers of alerts and of what a replay reads: plans, rollback files, journals, fleets."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from evaluation.stories import WINDOW
from tests.fuzz.mutators import (
    json_text,
    of_document,
    of_json,
    of_lines,
    of_toml,
    toml_text,
)
from tests.fuzz.target import SECRET, Case, Target, Web, changed, from_file
from tests.replay.fakes import orders, plan_of

_WEBHOOK = {
    "version": "4",
    "truncatedAlerts": 2,
    "alerts": [
        {"status": "resolved", "labels": {"alertname": "Other"}, "startsAt": "0001-01-01T00:00:00Z"},
        {
            "status": "firing",
            "labels": {"alertname": "ConsumerLagGrowing", "cluster": "prod", "consumergroup": "pay", "topic": "orders"},
            "annotations": {"summary": "late"},
            "startsAt": "2026-11-21T02:58:00.123456789Z",
            "fingerprint": "a1b2",
        },
    ],
}


def _alert() -> Target:
    from workbench.cli.triage_alert_option import asked_by

    def read(path: Path) -> object:
        options: Any = {"cluster": None, "recorded": False, "groups": (), "topics": (), "since": None}
        with redirect_stderr(io.StringIO()):
            return asked_by(path, **options, now=WINDOW.end)

    return Target(name="alert", make=changed(of_json, json_text(_WEBHOOK)), call=from_file(read, "alert.json"))


def _resealed(seal: Callable[[dict[str, Any]], str]) -> Callable[..., bytes]:
    """A change by structure with a hash that fits, so that more than the hash is looked at; else any change."""

    def mutate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        if random.random() < 0.5:
            return of_json(random, data, others)
        found = of_document(random, json.loads(data))
        if isinstance(found, dict):
            try:
                found["hash"] = seal(found)
            except ValueError:  # NaN has no hash
                found["hash"] = "0" * 64
        return json_text(found)

    return mutate


def _plans(folder: Path) -> list[Target]:
    from workbench.plans.journal import Journal
    from workbench.plans.strict_document import canonical_hash
    from workbench.replay import receipt
    from workbench.replay.planfile import read_plan

    plan = plan_of(orders())
    rolled = receipt.Rollback(
        plan=plan.hash, cluster="c", cluster_id="i", group="b", group_state="empty", written_at="2026-11-21T03:00:00+00:00",
        before=[("t", 0, 5)], targets=[("t", 0, 7), ("t", 1, 9)],
    )  # fmt: skip
    receipt.write_rollback(folder / "seed.rollback.json", rolled)
    journal = Journal(path=folder / "seed.jsonl")
    for phase in ("begin", "end"):
        journal.append(
            plan=plan.hash, cluster_id="i", group="b", action="apply", phase=phase, outcome="done", changes=[("t", 0, None, 7, None)]
        )  # fmt: skip

    def use_plan(path: Path) -> object:
        read = read_plan(path)
        return read.since_ms, read.until_ms, read.targets, read.messages, read.bytes_estimate, read.topics

    def use_rollback(path: Path) -> object:
        read = receipt.read_rollback(path)
        return (
            read.commits,
            read.wanted,
            read.short_hash,
            receipt.rollback_of_plan(path, plan.model_copy(update={"hash": read.plan})),
        )

    def use_journal(path: Path) -> object:
        entries, torn = Journal(path=path).read()
        return [(entry.at, entry.changes) for entry in entries], torn

    sealed, seed = _resealed(canonical_hash), (folder / "seed.rollback.json").read_bytes()
    return [
        Target(name="plan", make=changed(sealed, json_text(plan.document())), call=from_file(use_plan, "plan.json"), share=6),
        Target(name="rollback", make=changed(sealed, seed), call=from_file(use_rollback, "p.rollback.json")),
        Target(name="journal", make=changed(of_lines, journal.path.read_bytes()), call=from_file(use_journal, "journal.jsonl")),
    ]  # fmt: skip


_FLEET = {
    "kind": "http",
    "instances": ["http://a:8080", "https://b:8443/x"],
    "token": SECRET,
    "batch_size": 2,
    "health": {"timeout_seconds": 60.0, "settle_seconds": 1},
}
_COMMANDS = {
    "kind": "command",
    "instances": ["a", "b"],
    "command": {"switch": ["kubectl", "{instance}", "{group}"], "check": ["true", "{group}"], "timeout_seconds": 3},
}


def _fleets(web: Web) -> list[Target]:
    from workbench.replay.service_fleet import HttpFleet, read_fleet
    from workbench.replay.service_fleet_kinds import make_fleet

    file = SimpleNamespace(
        instances=["http://a:1"], token=SECRET, request_timeout_seconds=5.0, max_bytes_per_second=None
    )
    status = {
        "client_id": "a", "group": "g", "state": "running", "rebalances": 1, "processed": 10,
        "members": [{"member": "a-0", "partitions": [{"topic": "t", "partition": 0, "committed": 5, "completed": None}]}],
    }  # fmt: skip

    def make(random: Random) -> Case:
        code = random.choice((200, 200, 200, 202, 301, 401, 409, 500, 502))
        return {"status": str(code).encode(), "body": of_json(random, json_text(status))}

    def call(case: Mapping[str, bytes], _folder: Path) -> object:
        web.answers = {"": (int(case["status"]), "application/json", case["body"])}
        return HttpFleet(file).status("http://a:1")  # type: ignore[arg-type]

    kubernetes = {
        "kind": "kubernetes",
        "instances": ["pay-0", "pay-1"],
        "kubernetes": {"name": "pay", "kubectl": ["kubectl"]},
    }
    seeds = (toml_text(_FLEET), toml_text(_COMMANDS), toml_text(kubernetes))
    return [
        Target(
            name="fleet_file",
            make=changed(of_toml, *seeds),
            call=from_file(lambda path: make_fleet(read_fleet(path)), "fleet.toml"),
        ),
        Target(name="fleet_status", make=make, call=call, share=3),
    ]


def targets(web: Web, folder: Path) -> list[Target]:
    """All of this module."""
    return [_alert(), *_plans(folder), *_fleets(web)]
