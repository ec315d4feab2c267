"""Rules of a replay's screens: nobody replays everything, or into somebody's group, without having been told."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.cli.running import run_here
from tests.replay.fakes import FakeGateway, instant, now_ms, orders, plan_of, request
from tests.replay.test_apply import Place
from workbench.api.plan_view import checked_html, plan_html
from workbench.cli.replay_output import show_journal, show_plan, show_verdict
from workbench.errors import GuardError
from workbench.plans.confirm import Confirmation
from workbench.plans.journal import Journal, begun_replays
from workbench.redrive.confirmation import of_letters
from workbench.replay.confirm import of_plan, of_rollback
from workbench.replay.plan_head import cards
from workbench.replay.progress import Pace, ReplayProgress, TopicProgress, in_words
from workbench.replay.receipt import read_rollback, rollback_path
from workbench.replay.replay_request import PlanRequest
from workbench.replay.rollback_of_apply import roll_back
from workbench.replay.verify_evidence import CheckRequest, check
from workbench.settings import Cluster

HOUR = 3_600_000


def early(gateway: FakeGateway, hours: int = 8) -> tuple[str, int]:
    """A start in a zone that is so many hours off: what was typed, and the instant."""
    meant = min(at for log in gateway.records.values() for _, at in log)
    since = meant - hours * HOUR
    return instant(since).astimezone().isoformat(), since


# The plan


def test_a_window_before_the_oldest_record_is_shouted(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong time zone replays everything: the first warning says so, with the distance."""
    gateway = orders()
    typed, since = early(gateway)
    plan = plan_of(gateway, request(since, requested_since=typed))
    assert plan.warnings[0] == (
        "ALL 40 records of orders: the window begins 8 h before the topic's oldest record. Is the time zone right?"
    )
    show_plan(plan, "b:9092", None)
    shown = capsys.readouterr().out
    assert shown.index("ALL 40 records") < shown.index("partition ")
    assert "ALL 40 records" in plan_html(plan, Path("p.json"), "b:9092")


def test_a_start_that_is_days_off_is_no_question_of_zones() -> None:
    """Nobody is 27 hours apart."""
    gateway = orders()
    typed, since = early(gateway, hours=48)
    assert (
        plan_of(gateway, request(since, requested_since=typed))
        .warnings[0]
        .endswith("oldest record. Is the start right?")
    )


@pytest.mark.parametrize(
    "asked", [lambda: request(), lambda: request(now_ms() - 12 * 60_000, until=instant(now_ms() - 2 * 60_000))]
)
def test_a_window_within_the_topic_or_with_an_end_is_not(asked: Callable[[], PlanRequest]) -> None:
    """Only where every record is replayed."""
    assert not any("ALL " in it for it in plan_of(orders(), asked()).warnings)


def test_a_group_that_is_in_use_is_named_in_the_plan() -> None:
    """With what it reads; before anything is applied."""
    gateway = orders()
    gateway.records["events", 0] = [(0, now_ms())]
    gateway.groups["new"] = {("events", 0): 1}
    [used] = [it for it in plan_of(gateway).warnings if "in use" in it]
    assert (
        used == "The group 'new' is in use: it reads events (1 partition, 0 members). Choose a name that no group has."
    )
    gateway.groups["new"], gateway.members["new"] = {}, ["a"]
    assert any("in use" in it for it in plan_of(gateway).warnings)
    assert not any("in use" in it for it in plan_of(orders()).warnings)


def test_terminal_and_notebook_say_the_same_at_the_head(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was typed, and in which zone; each card stands in both, before the partitions."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        plan = plan_of(orders())
        show_plan(plan, "b:9092", Path("my plan.json"))
        shown, page = capsys.readouterr().out, plan_html(plan, Path("p.json"), "b:9092")
        for it in cards(plan):
            assert shown.index(it.value) < shown.index("begins at")
            assert it.value in page
            assert it.note.split(";")[0] in shown
        assert f"you wrote: 5m ago; here: {instant(now_ms()).astimezone() - timedelta(minutes=5):%Y-%m-%d}" in shown
        assert "+0800" in shown
        assert shown.rstrip().endswith("Next: workbench replay apply 'my plan.json'")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_plan_of_one_topic_has_a_line_for_each_partition(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal of 80 columns: columns are left out, rows are not broken up."""
    monkeypatch.setenv("COLUMNS", "80")
    show_plan(plan_of(orders(partitions=9)), "b:9092", None)
    table = capsys.readouterr().out.split("partition  begins at")[1].splitlines()[1:10]
    assert [line.split()[0] for line in table] == [str(number) for number in range(9)]
    assert all(len(line) <= 80 for line in table)


# The confirmation


def test_it_is_the_name_and_the_number_or_the_hash() -> None:
    """However the digits are grouped; nothing else."""
    it = Confirmation(hash="ab12cd34" * 8, name="re 1", number=9314, asked="x")
    for right in ("re 1 9314", " re 1  9,314 ", "re 1 9 314", "ab12cd34", "AB12CD34ab12"):
        assert it.is_right(right), right
    for wrong in ("", "re 1", "re 1 931", "re 19314", "re-1 9314", "9314", "ab12cd3", "re 1 9314 x", "re 1 -9314"):
        assert not it.is_right(wrong), wrong


def test_a_refusal_never_tells_the_answer(tmp_path: Path) -> None:
    """Neither of a wrong answer, nor without a terminal."""
    plan = plan_of(orders())
    for it in (of_plan(plan), of_letters(plan.hash, "orders-dlt", 12_345)):
        with pytest.raises(GuardError) as caught:
            it.check("deadbeef")
        said = f"{caught.value.message} {caught.value.hint}"
        assert it.hash[:8] not in said
        assert str(it.number) not in said
        assert "orders-dlt" not in said
    (tmp_path / "plan.json").write_text(__import__("json").dumps(plan.document()))
    (tmp_path / "workbench.toml").write_text('[clusters.c]\nbootstrap = "127.0.0.1:9"\n')
    shown = run_here("replay", "apply", "plan.json", cwd=tmp_path)
    assert (shown.returncode, plan.short_hash in shown.stderr) == (2, False)
    assert "Without a terminal, a confirmation is required." in shown.stderr


def test_a_way_back_is_confirmed_by_group_and_commits(tmp_path: Path) -> None:
    """0 where the group did not exist."""
    place = Place(tmp_path, orders())
    place.apply()
    rollback = read_rollback(rollback_path(place.path))
    assert of_rollback(rollback).is_right("new 0")
    assert not of_rollback(rollback).is_right("new 4")


def test_apply_means_the_same_for_offsets_and_letters(tmp_path: Path) -> None:
    """It writes after its confirmation; --dry-run does not; the old flag of `dlq` is accepted, with a note."""
    for words in (["replay", "apply"], ["dlq", "apply"], ["dlq", "discard"], ["dlq", "give-up"]):
        helped = run_here(*words, "--help", cwd=tmp_path).stdout
        assert ("--dry-run" in helped) == (words != ["replay", "rollback"]), words
        assert "--apply " not in helped
    from tests.redrive.test_guard import PLAN
    from workbench.plans.strict_document import write_file

    write_file(tmp_path / "redrive.json", PLAN.document())
    (tmp_path / "workbench.toml").write_text(f'[clusters.{PLAN.cluster}]\nbootstrap = "127.0.0.1:9"\n')
    for command, more in (("apply", []), ("discard", ["--reason", "x"]), ("give-up", ["--reason", "x"])):
        shown = run_here("dlq", command, "redrive.json", *more, cwd=tmp_path)
        assert (shown.returncode, "a confirmation is required" in shown.stderr) == (2, True), shown.stderr
        shown = run_here("dlq", command, "redrive.json", *more, "--apply", cwd=tmp_path)
        assert "--apply is not needed any more" in shown.stderr
        shown = run_here("dlq", command, "redrive.json", *more, "--confirm", "00000000", cwd=tmp_path)
        assert shown.returncode == 6, shown.stderr
    for command in ("discard", "give-up"):
        shown = run_here("dlq", command, "redrive.json", "--reason", "x", "--dry-run", cwd=tmp_path)
        assert (shown.returncode, "Nothing was changed." in shown.stderr) == (0, True), shown.stderr


# After it


def test_before_any_consumer_runs_it_is_not_started(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """And not incomplete; the verdict in JSON and the exit code stay what they were."""
    place.apply()
    cluster = Cluster(name="c", bootstrap="b:9092")

    def looked() -> object:
        return check(place.plan, cluster, place.gateway, lambda ranges: dict.fromkeys(ranges, 1), CheckRequest())

    found = looked()
    assert found.sentence == "Not started: no consumer in new."  # type: ignore[attr-defined]
    assert found.document()["verdict"] == "incomplete"  # type: ignore[attr-defined]
    show_verdict(found)  # type: ignore[arg-type]
    assert "INCOMPLETE" not in capsys.readouterr().out
    assert "INCOMPLETE" not in checked_html(found)  # type: ignore[arg-type]
    place.gateway.groups["new"]["orders", 0] += 1
    assert looked().sentence.startswith("INCOMPLETE")  # type: ignore[attr-defined]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Four partitions, a new group that does not exist."""
    return Place(tmp_path, orders())


def test_following_says_what_to_start() -> None:
    """Until somebody has begun; then it is a consumer that is missing."""
    look = ReplayProgress(
        at=0.0, topics=(TopicProgress(topic="t", done=0, total=9),), left={("t", 0): 9}, new_lag=9, old_lag=0, members=0
    )
    assert in_words(look, Pace(), group="re-1").startswith(
        "Not started: no consumer in re-1. Start consumers with group.id=re-1"
    )
    begun = ReplayProgress(
        at=0.0, topics=(TopicProgress(topic="t", done=3, total=9),), left={("t", 0): 6}, new_lag=6, old_lag=0, members=0
    )
    assert "no consumer in re-1" in in_words(begun, Pace(), group="re-1")
    assert "Not started" not in in_words(begun, Pace(), group="re-1")


def test_the_journal_knows_the_replays_that_wait(place: Place) -> None:
    """From their first offset on, until they are rolled back."""
    assert begun_replays(place.journal.read()[0]) == {}
    place.apply()
    assert begun_replays(place.journal.read()[0]) == {"new": place.plan.targets}
    with patch.object(
        place.gateway, "delete_group", return_value="COORDINATOR_NOT_AVAILABLE"
    ):  # so nothing was taken back
        roll_back(read_rollback(rollback_path(place.path)), place.gateway, place.journal, sleep=lambda _s: None)
    assert begun_replays(place.journal.read()[0]) == {"new": place.plan.targets}
    roll_back(read_rollback(rollback_path(place.path)), place.gateway, place.journal, sleep=lambda _s: None)
    assert begun_replays(place.journal.read()[0]) == {}
    assert Journal(path=place.path.parent / "none.jsonl").read() == ([], 0)


def test_the_end_of_a_replay_elsewhere_is_not_the_end_of_this_one(place: Place) -> None:
    """Another cluster may have a group of the same name."""
    place.apply()
    place.journal.append(
        plan="x", cluster_id="another-cluster", group="new", action="retire", phase="end", outcome="done"
    )
    assert begun_replays(place.journal.read()[0]) == {"new": place.plan.targets}


def test_a_change_is_one_line_of_the_journal(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Its end; a beginning alone was interrupted."""
    place.apply()
    entries, _ = place.journal.read()
    show_journal(entries)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert " done " in lines[1]
    show_journal(entries[:1])
    assert " begun " in capsys.readouterr().out
