"""Letters that expire between the plan and the end of its run: none is passed over, and what was taken is never sent again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.redrive.fakes import FakeCluster, FakeSink
from tests.redrive.making import LETTERS, TOPIC, letter_of, now_of, plan_from
from tests.redrive.test_properties import run_of
from workbench.errors import EvidenceError, ExitCode
from workbench.redrive.apply import Redrive, RedriveOutcome
from workbench.redrive.guard import RedriveLimits, RedriveNow, check_redrive
from workbench.redrive.letter_headers import Headers, Letter
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_ledger import Ledger
from workbench.redrive.redrive_ports import LettersGoneError, Positions


@dataclass
class Service(FakeSink):
    """Takes each letter at once, as a REST service does."""

    takes_at_once: bool = True

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        self.cluster.records.append((topic, letter.offset, letter.key, letter.value, ()))


@dataclass
class Expiring(FakeCluster):
    """Retention takes the letters below an offset once a batch was read."""

    below: int = 0
    is_expired: bool = False

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        for batch in super().read(start, stop):
            yield batch
            if not self.is_expired:
                self.is_expired = True
                raise LettersGoneError(f"{TOPIC}-0: out of range")


def redrive(plan: RedrivePlan, cluster: Expiring, folder: Path) -> Redrive:
    """A run by HTTP, or as good as."""

    def look() -> RedriveNow:
        now = now_of(plan, cluster, Ledger(folder / "ledger"))
        starts = {(TOPIC, 0): cluster.below} if cluster.is_expired else now.logs.starts
        return replace(now, logs=replace(now.logs, starts=starts))

    run = run_of(plan, cluster, folder)
    run.make_sink, run.look, run.limits = lambda: Service(cluster), look, RedriveLimits(retention_margin_seconds=0)
    return run


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_what_the_service_has_taken_is_committed_before_the_run_ends(tmp_path: Path) -> None:
    """With the number of letters that are gone; the rest is refused from then on, and nothing is sent twice."""
    plan, cluster = plan_from(LETTERS), Expiring(LETTERS, below=7)
    with pytest.raises(EvidenceError, match=r"deleted 4 letters of the plan; the log now begins at 7") as raised:
        redrive(plan, cluster, tmp_path).run()
    assert raised.value.exit_code is ExitCode.EVIDENCE and "give-up" in str(raised.value.hint)
    assert [it[1] for it in cluster.records] == [0, 1, 2] and cluster.positions == {0: 3}
    again = redrive(plan, cluster, tmp_path).run()
    assert (again.outcome, len(cluster.records)) == (RedriveOutcome.REFUSED, 3)


def test_what_is_gone_and_was_not_planned_ends_no_run(tmp_path: Path) -> None:
    """The log begins anew behind the position, and before the next planned letter."""
    picked = [it if it.offset in (0, 9) else letter_of(0, it.offset, origin=None, rounds=9) for it in LETTERS]
    plan, cluster = plan_from(picked), Expiring(picked, below=8)
    assert plan.letters == 2
    receipt = redrive(plan, cluster, tmp_path).run()
    assert (receipt.outcome, [it[1] for it in cluster.records]) == (RedriveOutcome.DONE, [0, 9])


def test_letters_in_an_order_of_their_own_are_looked_for_before_any_is_sent(tmp_path: Path) -> None:
    """Those that are left, not those that were produced."""
    letters = [letter_of(0, at, b"k", (0, 9 - at)) for at in range(10)]
    plan, cluster = plan_from(letters), FakeCluster(letters)
    assert len(plan.ordered) == 10
    now = now_of(plan, cluster, Ledger(tmp_path / "ledger"))
    late = replace(now, logs=replace(now.logs, starts={(TOPIC, 0): 4}))
    [refusal] = check_redrive(plan, late, RedriveLimits(retention_margin_seconds=0))
    assert (refusal.code, "deleted 4 letters" in refusal.message) == ("letters_deleted", True)
    positions = {0: 10}
    through = replace(late, positions=positions, ordered=10)  # from offset 9 to 0
    assert not check_redrive(plan, through, RedriveLimits(retention_margin_seconds=0))
    begun = replace(late, positions=positions, ordered=7)
    [refusal] = check_redrive(plan, begun, RedriveLimits(retention_margin_seconds=0))
    assert "deleted 3 letters" in refusal.message
