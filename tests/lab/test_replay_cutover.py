"""The rolling change on real instances: with a cap, back again, and through commands."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit
from tests.lab.instances import TOKEN, Fleet, fleet_file
from tests.lab.replaying import fresh, kept, now_ms, plan_for, processed_log, replay, topic_with, wait_for_members
from tests.lab.test_replay_apply import commits
from tests.waiting import wait_for
from workbench.lab import process
from workbench.lab.lab import Lab
from workbench.replay.planfile import Plan

pytestmark = pytest.mark.lab

PARTITIONS, EACH, INSTANCES = 4, 25_000, 2
_SWITCH = """
import json, sys, urllib.request
url, group, since, token = sys.argv[1:]
body = json.dumps({"group": group, "since": since}).encode()
request = urllib.request.Request(url + "/replay", data=body, headers={"Authorization": "Bearer " + token})
urllib.request.urlopen(request, timeout=10).read()
"""


@pytest.fixture
def fleet(lab: Lab, admin: AdminClient, tmp_path: Path) -> Iterator[tuple[Fleet, Plan, Path]]:
    """Two instances at the end of the log in the old group, and a plan that is applied for all of it."""
    now = now_ms()
    topic, group = topic_with(lab, {n: [now - 60_000 + i for i in range(EACH)] for n in range(PARTITIONS)})
    commit(admin, group, topic, dict.fromkeys(range(PARTITIONS), EACH))
    (tmp_path / "notes").mkdir()
    made = Fleet(lab, topic, group, tmp_path, [process.free_port() for _ in range(INSTANCES)], {})
    plan = plan_for(lab, topic, group, fresh("new"), "1h ago")
    try:
        for index in range(INSTANCES):
            made.start(index)
        wait_for_members(admin, group, INSTANCES, 60)
        yield made, plan, kept(tmp_path, plan)
    finally:
        made.stop()


def group_of(fleet: Fleet, index: int) -> tuple[str, str]:
    """An instance's own word."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    status = requests.get(fleet.url(index) + "/status", headers=headers, timeout=5).json()
    return status["group"], status["state"]


def test_capped_and_back_again(fleet: tuple[Fleet, Plan, Path], settings_file: Path, admin: AdminClient) -> None:
    """The bytes of the replay come no faster than allowed; --back brings everybody back, and nobody's offsets are lost."""
    made, plan, path = fleet
    before = commits(admin, plan.from_group)
    confirm = ["--confirm", plan.hash]
    assert replay("apply", str(path), *confirm, settings=settings_file).returncode == 0
    cap = 25_000
    began = time.monotonic()
    words = ["cutover", str(path), "--fleet", str(fleet_file(made)), *confirm]
    shown = replay(*words, "--max-bytes-per-second", str(cap), settings=settings_file)
    assert shown.returncode == 0, shown.stderr
    assert "Bytes to read from broker 1" in shown.stderr
    followed = replay(
        "follow", str(path), "--interval", "500ms", "--timeout", "4m", settings=settings_file, timeout=300
    )
    took = time.monotonic() - began
    assert followed.returncode == 0, followed.stderr
    assert plan.bytes_estimate is not None
    # At least as long as the cap says (both at once, with a second's worth in the bucket at the start).
    assert took >= 0.7 * (plan.bytes_estimate / (cap * INSTANCES)) - 1
    back = replay(*words, "--back", settings=settings_file)
    assert back.returncode == 0, back.stderr
    assert [group_of(made, index) for index in range(INSTANCES)] == [(plan.from_group, "running")] * INSTANCES
    assert commits(admin, plan.from_group) == before
    handled = processed_log(made.folder / "notes")
    assert {len(set(offsets)) for offsets in handled.values()} == {EACH}
    verified = replay("verify", str(path), "--json", settings=settings_file)
    assert json.loads(verified.stdout)["verdict"] == "verified"


def test_through_commands(fleet: tuple[Fleet, Plan, Path], settings_file: Path, admin: AdminClient) -> None:
    """A command for each instance; health is what the group itself shows; a command that fails stops it, and it goes on."""
    made, plan, path = fleet
    assert replay("apply", str(path), "--confirm", plan.hash, settings=settings_file).returncode == 0
    urls = [made.url(index) for index in range(INSTANCES)]
    switch = json.dumps([sys.executable, "-c", _SWITCH, "{instance}", "{group}", "{since}", TOKEN])
    file = made.folder / "commands.toml"
    file.write_text(
        f'kind = "command"\ninstances = {json.dumps(urls)}\n[command]\nswitch = {switch}\n'
        "[health]\ntimeout_seconds = 30\nsettle_seconds = 1\n"
    )
    words = ["cutover", str(path), "--fleet", str(file), "--confirm", plan.hash]
    made.children[1].kill()
    failed = replay(*words, settings=settings_file)
    assert failed.returncode == 6
    assert "batch 2 of 2" in failed.stderr
    assert "--back" in failed.stderr
    made.start(1)
    wait_for(lambda: made.answers(1))
    done = replay(*words, settings=settings_file)
    assert done.returncode == 0, done.stderr
    assert f"{urls[0]}: in {plan.new_group} already" in done.stderr
    wait_for_members(admin, plan.new_group, INSTANCES)
    assert replay("follow", str(path), "--timeout", "3m", settings=settings_file).returncode == 0


def test_an_instance_that_restarts_comes_back_in_its_group(
    fleet: tuple[Fleet, Plan, Path], settings_file: Path, admin: AdminClient
) -> None:
    """Killed and started with its former configuration: in the new group after a cutover, in the old one after the switch back.

    A fleet that would forget the switch is refused before any instance is switched.
    """
    made, plan, path = fleet
    assert replay("apply", str(path), "--confirm", plan.hash, settings=settings_file).returncode == 0
    words = ["cutover", str(path), "--fleet", str(fleet_file(made)), "--confirm", plan.hash]

    def restarted(index: int) -> tuple[str, str]:
        made.children[index].kill()
        made.start(index)
        wait_for(lambda: made.answers(index))
        return group_of(made, index)

    made.keeps = False
    assert restarted(0)[0] == plan.from_group
    refused = replay(*words, settings=settings_file)
    assert refused.returncode == 6
    assert "switch_file" in refused.stderr
    assert [group_of(made, index)[0] for index in range(INSTANCES)] == [plan.from_group] * INSTANCES
    made.keeps = True
    assert restarted(0)[0] == plan.from_group
    done = replay(*words, settings=settings_file)
    assert done.returncode == 0, done.stderr
    assert restarted(0)[0] == plan.new_group
    wait_for_members(admin, plan.new_group, INSTANCES)
    followed = replay("follow", str(path), "--timeout", "3m", settings=settings_file, timeout=240)
    assert followed.returncode == 0, followed.stderr
    back = replay(*words, "--back", settings=settings_file)
    assert back.returncode == 0, back.stderr
    assert restarted(0)[0] == plan.from_group
    assert {len(set(offsets)) for offsets in processed_log(made.folder / "notes").values()} == {EACH}
