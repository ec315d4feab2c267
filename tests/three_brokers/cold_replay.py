"""A replay of gigabytes from remote storage beside groups with an objective: under the guard, then without it.

`python -m tests.three_brokers.cold_replay --gigabytes 5 --out cold.jsonl` fills a tiered topic whose segments leave the disks, plans a
replay of all of it, applies it, and lets a fleet of the runtime read it through the narrow card of broker 1, while the watch of
`replay follow` looks after the neighbours, as often as it does for users. Then the same into another group, with nobody who looks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit
from tests.lab.instances import Fleet, fleet_file
from tests.lab.replaying import kept, plan_for
from tests.lab.sharing import Sharing
from tests.three_brokers.tiered import TieredLab, start_tiered
from tests.waiting import wait_for
from workbench.api.replay_steps import open_replay
from workbench.errors import WorkbenchError
from workbench.lab.lab_broker import set_quota
from workbench.lab.process import ending_on_signals, free_ports
from workbench.queues.systems import system_of
from workbench.replay.guard import ReplayLimits
from workbench.replay.verify import VerifyVerdict
from workbench.safe_output import say

CARD = 20e6  # bytes/s that broker 1 can send
SHOPS = ("orders", "payments")
PER_SECOND, RECORD = (
    100,
    40_000,
)  # 4 MB/s for each shop: more than a sixth of the card, which is what it gets beside four instances
OBJECTIVE_SECONDS = 20.0
INSTANCES = PARTITIONS = 4
OLD_RECORD = 50_000
# As TIERED_TOPIC of `tiered`, with segments that are not a thousand.
COLD_TOPIC = {"remote.storage.enable": "true", "local.retention.ms": "3000", "segment.bytes": "33554432"}
FEW = {"retention.bytes": "300000000", "segment.bytes": "33554432"}  # of a shop's partition: the disk is not for them
MOST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How one replay went.

    Attributes:
        guarded: whether somebody looked after the neighbours.
        gigabytes: what it had to read; cold_share: of its messages, what was in remote storage alone, as the plan says.
        worst: seconds that the worst shop was behind at the worst moment.
        seconds: how long it took; finished: whether every message was read, as `verify` says.
        said: what the watch said.
    """

    guarded: bool
    gigabytes: float
    cold: str
    worst: float
    seconds: float
    finished: bool
    said: tuple[str, ...]


def behind(lab: TieredLab) -> float:
    """Seconds of arrivals that the worst shop has not read."""
    found = system_of(lab.cluster()).observer(lab.cluster()).snapshot(groups=list(SHOPS))
    return max((found.lag(shop, shop, 0) or 0) / PER_SECOND for shop in SHOPS)


def _on_the_tail(lab: TieredLab) -> bool:
    """Whether both shops are; one that has not committed yet is not."""
    try:
        return behind(lab) < 2
    except WorkbenchError:
        return False


def waiting(lab: TieredLab, group: str) -> int:
    """Messages of the old topic that a group has not read."""
    found = system_of(lab.cluster()).observer(lab.cluster()).snapshot(groups=[group])
    return sum(found.lag(*part) or 0 for part in found.commits)


def replayed(lab: TieredLab, folder: Path, settings: Path, *, gigabytes: float, guarded: bool) -> Replayed:
    """Plan, apply, follow, verify. Without the guard it ends as soon as a shop is twice its objective behind."""
    group = "guarded" if guarded else "unguarded"
    folder.mkdir()
    (folder / "notes").mkdir()
    plan = plan_for(lab, "history", "old", group, "1d ago")  # type: ignore[arg-type]
    replay = open_replay(kept(folder, plan), config=settings)
    replay.apply(replay.plan.hash, limits=ReplayLimits(), quiet_seconds=0.0)
    fleet = Fleet(lab, "history", group, folder, list(free_ports(INSTANCES)), {})  # type: ignore[arg-type]
    said: list[str] = []
    try:
        for index in range(INSTANCES):
            fleet.start(index)
        wait_for(lambda: all(fleet.answers(index) for index in range(INSTANCES)), seconds=90)
        watch = replay.neighbours(fleet_file(fleet))
        began = time.monotonic()
        worst = _watched(
            lab,
            group,
            began,
            (lambda: said.extend(watch.look().lines) if watch.is_due() else None) if guarded else None,
        )
        took = time.monotonic() - began
        finished = waiting(lab, group) == 0
    finally:
        fleet.stop()
    cold = next((it for it in plan.warnings if "remote storage" in it), "none of it")
    return Replayed(
        guarded=guarded, gigabytes=gigabytes, cold=cold, worst=worst, seconds=took,
        finished=finished and replay.verify().verdict is VerifyVerdict.VERIFIED, said=tuple(said),
    )  # fmt: skip


def _watched(lab: TieredLab, group: str, began: float, look: Callable[[], None] | None) -> float:
    """The worst moment of the shops, until the replay has read everything; without a look until it is plain."""
    worst, shown = 0.0, 0.0
    while time.monotonic() - began < MOST_SECONDS:
        if look is not None:
            look()
        try:
            worst, left = max(worst, behind(lab)), waiting(lab, group)
        except WorkbenchError:
            continue
        if time.monotonic() - shown > 20:
            shown = time.monotonic()
            say(f"{shown - began:.0f} s: {left} messages left, worst so far {worst:.1f} s")
        if left == 0 or (look is None and worst > 2 * OBJECTIVE_SECONDS):
            break
        time.sleep(1)
    return worst


def main() -> None:
    """Fill, replay twice, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with ending_on_signals(), tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with start_tiered(folder / "lab", narrow={1: CARD}) as lab, Sharing(lab.bootstrap) as sharing:
            sharing.topic("history", [[1]] * PARTITIONS, **COLD_TOPIC)
            for shop in SHOPS:
                sharing.topic(shop, [[1]], **FEW)
            set_quota(lab.bootstrap, "metering", 1_000_000_000)  # so that brokers measure every client
            say("Filling.")
            sharing.fill("history", PARTITIONS, int(given.gigabytes * 1e9 / OLD_RECORD), OLD_RECORD)
            sharing.write(SHOPS, 1, PER_SECOND, RECORD)
            for shop in SHOPS:
                sharing.read(shop, shop, begin="latest")
            settings = folder / "workbench.toml"
            settings.write_text(lab.settings_text(OBJECTIVE_SECONDS), encoding="utf-8")
            commit(
                AdminClient({"bootstrap.servers": lab.bootstrap}), "old", "history", dict.fromkeys(range(PARTITIONS), 0)
            )
            for guarded in (True, False):
                wait_for(lambda: _on_the_tail(lab), seconds=300)
                done = replayed(lab, folder / f"{guarded}", settings, gigabytes=given.gigabytes, guarded=guarded)
                say(f"guarded {guarded}: worst {done.worst:.1f} s, {done.seconds:.0f} s, finished {done.finished}")
                with given.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(done)) + "\n")


if __name__ == "__main__":
    main()
