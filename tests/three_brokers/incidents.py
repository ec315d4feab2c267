"""Live incidents on three brokers: draws a kind and a seed, writes the truth down before, and judges what `workbench impact` says.

`python -m tests.three_brokers.incidents --seeds 1 2 --out incidents.jsonl` starts two labs for each seed, the first with two narrow
network cards, and plays every kind in a drawn order. A line for each incident: its truth, whether the culprit is right, recall of
victims, innocents accused.
`--judge FOLDER` judges the recordings that `--keep FOLDER` has kept once more. `--cap` also carries out the advice while the incident
goes on: the printed cap is set, the victims must be back on the tail, and it is taken away again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.lab.sharing import Sharing
from tests.three_brokers.advised_caps import Capped, carried_out
from tests.three_brokers.kinds import LAST, NARROW, SECONDS, SLOW_STORE, WIDE, Room, Truth
from tests.three_brokers.tiered import BROKERS, TieredLab, start_tiered
from workbench import api
from workbench.collect.recorder import Recorder
from workbench.lab.process import ending_on_signals
from workbench.safe_output import say
from workbench.triage.verdict_names import Verdict

_BASE_SECONDS, _AFTER_SECONDS = 30.0, 40.0
_TRUTH = "truth.json"  # beside each recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How one incident was judged.

    Attributes:
        right: exactly those are accused who should be, on their brokers, and every verdict is there.
        recall: found victims of those that there are; None if there are none.
        innocents: accused without fault. beside: verdicts of brokers that the truth does not speak of.
        load: mean length of the machine's run queue in the last minute, when the recording began and when it ended.
        capped: what the advice did, if it was carried out.
    """

    kind: str
    seed: int
    groups: int
    truth: Truth
    load: tuple[float, float]
    right: bool
    recall: float | None
    innocents: tuple[str, ...]
    beside: tuple[str, ...]
    said: str
    capped: Capped | None = None

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @property
    def words(self) -> str:
        """For the screen."""
        how = "right" if self.right else "WRONG"
        cap = f"; {self.capped.words}" if self.capped is not None else ""
        return f"{self.kind} {self.seed}: {how}, recall {self.recall}, innocents {self.innocents}, load {self.load}: {self.said}{cap}"


def recorded(lab: TieredLab, folder: Path, inject: Callable[[], None], seconds: float) -> tuple[float, float]:
    """Record before and after; the machine's load at the beginning and the end."""
    cluster, done = lab.cluster(timeout_seconds=4.0), threading.Event()
    recorder = Recorder(cluster, folder, interval_seconds=2.0, thresholds=cluster.thresholds)
    recording = threading.Thread(target=recorder.run, args=(done,))
    began = os.getloadavg()[0]
    recording.start()
    time.sleep(_BASE_SECONDS)
    inject()
    time.sleep(seconds)
    ended = os.getloadavg()[0]
    done.set()
    recording.join()
    return began, ended


def _times(seconds: float) -> tuple[str, str]:
    """(Since when, what is good before it) of a recording that lasted so long once its incident had begun."""
    return f"{seconds + 4:.0f}s ago", f"{_BASE_SECONDS - 4:.0f}s"


def asked(folder: Path, seconds: float) -> api.ImpactResult:
    """Who slows whom in a recording."""
    since, baseline = _times(seconds)
    return api.impact(capture=folder, since=since, baseline=baseline)


def judged(kind: str, seed: int, folder: Path) -> Played:
    """Ask who slows whom in a recording, and compare with the truth beside it."""
    kept = json.loads((folder / _TRUTH).read_text(encoding="utf-8"))
    told = kept["truth"]
    truth = Truth(
        offenders={name: tuple(brokers) for name, brokers in told["offenders"].items()},
        victims=tuple(told["victims"]),
        verdicts=tuple(told["verdicts"]),
        cold=told["cold"],
    )
    found = asked(folder, kept["seconds"])
    causes = {it.offender.name: it for it in found.found.causes}
    verdicts = tuple(str(it.verdict) for it in found.brokers.findings)
    innocents = causes.keys() - truth.offenders.keys()
    right = {name: it.offender.brokers for name, it in causes.items() if name in truth.offenders} == truth.offenders
    right &= not innocents and set(truth.verdicts) <= set(verdicts)
    hit = {(name, one.group) for name, cause in causes.items() for one in cause.victims}
    hit |= {("", group) for it in found.brokers.findings for group in it.groups}
    wanted = {(name, group) for name in truth.offenders or ("",) for group in truth.victims}
    said = [found.found.sentence, *(f"{it.verdict}: {it.headline}" for it in found.brokers.findings)]
    if truth.cold is not None:
        since, baseline = _times(kept["seconds"])
        findings = api.triage(capture=folder, since=since, baseline=baseline).findings
        cold = {it.group for it in findings if it.verdict is Verdict.COLD_READ}
        right &= truth.cold in cold
        innocents |= cold - {truth.cold}
        said += [f"{it.group}: {it.headline}" for it in findings if it.group in (truth.cold, *cold)]
    return Played(
        kind=kind,
        seed=seed,
        groups=kept["groups"],
        truth=truth,
        load=tuple(kept["load"]),
        right=right,
        recall=len(hit & wanted) / len(wanted) if wanted else None,
        innocents=tuple(sorted(innocents)),
        beside=tuple(it for it in verdicts if it not in truth.verdicts),
        said="; ".join(said),
    )


@contextmanager
def opened(folder: Path, seed: int, *, is_wide: bool) -> Iterator[Room]:
    """A lab whose narrow brokers and shops are drawn from the seed; a wide one has no narrow broker, and a slow remote store."""
    draw = random.Random(seed)
    narrow = draw.randint(1, BROKERS)
    room = Room(draw, narrow)
    cards = {} if is_wide else {room.narrow: room.card, room.second: room.card}
    store = SLOW_STORE if is_wide else None
    with start_tiered(folder, narrow=cards, remote_bytes_per_second=store) as lab, Sharing(lab.bootstrap) as sharing:
        room.enter(lab, sharing, is_wide=is_wide)
        yield room


def played(seed: int, kinds: list[str], folder: Path, labs: Path, *, caps: bool) -> Iterator[Played]:
    """Every kind once, in a drawn order; recordings in one folder, what brokers write in another."""
    for is_wide, here in ((False, NARROW), (True, WIDE)):
        mine = [it for it in here if it in kinds]
        if not mine:
            continue
        with opened(labs / f"{is_wide}", seed, is_wide=is_wide) as room:
            for kind in sorted(mine, key=lambda it: (it in LAST, room.draw.random())):
                room.rest()
                with ExitStack() as end:
                    truth, inject = here[kind](room, end)
                    seconds = SECONDS.get(kind, _AFTER_SECONDS)
                    load = recorded(room.lab, folder / kind, inject, seconds)
                    text = json.dumps(
                        {"truth": asdict(truth), "groups": len(room.shops), "load": load, "seconds": seconds}
                    )
                    (folder / kind / _TRUTH).write_text(text, encoding="utf-8")
                    capped = (
                        carried_out(room, truth, asked(folder / kind, seconds)) if caps and truth.offenders else None
                    )
                yield replace(judged(kind, seed, folder / kind), capped=capped)


def judged_again(kept: Path, kinds: list[str]) -> Iterator[Played]:
    """Every recording that was kept."""
    for truth in sorted(kept.glob(f"*/*/{_TRUTH}")):
        if truth.parent.name in kinds:
            yield judged(truth.parent.name, int(truth.parent.parent.name), truth.parent)


def main() -> None:
    """Play and write a line for each incident."""
    parser = argparse.ArgumentParser(description=__doc__)
    all_kinds = [*NARROW, *WIDE]
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--kinds", nargs="+", choices=all_kinds, default=all_kinds)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="Keep the recordings in this folder.")
    parser.add_argument("--judge", type=Path, help="Play nothing; judge the recordings in this folder.")
    parser.add_argument("--cap", action="store_true", help="Carry out the advice for each culprit, and take it back.")
    given = parser.parse_args()

    def note(each: Iterator[Played]) -> None:
        for it in each:
            say(it.words)
            with given.out.open("a", encoding="utf-8") as out:
                out.write(it.line() + "\n")

    if given.judge is not None:
        note(judged_again(given.judge, given.kinds))
        return
    with ending_on_signals():
        for seed in given.seeds:
            with tempfile.TemporaryDirectory() as labs, tempfile.TemporaryDirectory() as room:
                folder = given.keep / str(seed) if given.keep is not None else Path(room)
                folder.mkdir(parents=True, exist_ok=True)
                note(played(seed, given.kinds, folder, Path(labs), caps=given.cap))


if __name__ == "__main__":
    main()
