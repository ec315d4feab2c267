"""Selection, duplicates, order, ranges and resumption against naive models."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.redrive.fakes import FakeCluster, FakeSink, KilledError
from tests.redrive.making import SOURCE, TOPIC, letter_of, now_of, plan_from
from tests.replay.fakes import killed_before_its_last_line
from workbench.errors import GuardError
from workbench.plans.journal import Journal
from workbench.redrive.apply import Redrive, RedriveOutcome
from workbench.redrive.key_order import Order
from workbench.redrive.letter_headers import LETTER_HEADER, Letter
from workbench.redrive.picked_letter_offsets import Picks, Walk
from workbench.redrive.plan import RedriveRequest
from workbench.redrive.planfile import Dedup, RedrivePlan
from workbench.redrive.redrive_ledger import Ledger
from workbench.redrive.selection import Selection

OFFSETS = st.sets(st.integers(0, 80), max_size=40)


@given(OFFSETS, OFFSETS, st.integers(0, 90))
def test_picks_are_a_set_of_offsets(some: set[int], others: set[int], at: int) -> None:
    """Text and back, membership, counts, overlap, union, cut: as Python's sets say."""
    picks, more = Picks.of(sorted(some)), Picks.of(sorted(others))
    assert Picks.parse(str(picks)) == picks
    assert list(picks) == sorted(some) and len(picks) == len(some)
    assert (at in picks) == (at in some)
    assert picks.below(at) == sum(offset < at for offset in some)
    assert picks.overlap(more) == len(some & others)
    assert set(Picks.union([picks, more])) == some | others
    assert set(picks.cut(below=at)) == {offset for offset in some if offset < at}


@given(OFFSETS, OFFSETS, st.integers(0, 90))
def test_a_walk_takes_each_pick_once_and_names_those_without_a_record(
    some: set[int], records: set[int], start: int
) -> None:
    """From any position; nothing is taken twice, nothing is skipped in silence."""
    walk, missing = Walk(Picks.of(sorted(some)), start), list[int]()
    taken = [offset for offset in sorted(records) if offset >= start and walk.take(offset, missing)]
    walk.skip_to(1_000, missing)
    wanted = {offset for offset in some if offset >= start}
    assert taken == sorted(wanted & records)
    assert missing == sorted(wanted - records)


LETTERS = st.lists(
    st.tuples(
        st.integers(0, 2),  # partition of the letter
        st.sampled_from([b"a", b"b", b"c", None]),  # key
        st.integers(0, 12),  # offset of the origin
        st.sampled_from(["Timeout", "Bad", "x"]),
        st.integers(0, 4),  # rounds
        st.booleans(),  # whether the headers say the origin
    ),
    min_size=1,
    max_size=40,
)
KEY_PARTITION = {b"a": 0, b"b": 1, b"c": 0, None: 1}


def letters_from(rows: list[tuple[int, bytes | None, int, str, int, bool]]) -> list[Letter]:
    """Letters with gaps between their offsets, as transaction markers leave them."""
    following, found = [0, 5, 0], []
    for number, (partition, key, origin, error, rounds, says) in enumerate(rows):
        place = (KEY_PARTITION[key], origin) if says else None
        found.append(letter_of(partition, following[partition], key, place, error, rounds, number))
        following[partition] += 1 + (number % 7 == 3)
    return sorted(found, key=lambda it: (it.partition, it.offset))


def naive_plan(letters: list[Letter], request: RedriveRequest) -> tuple[set[tuple[int, int]], Counter[str]]:
    """Places of the letters that are produced, and why others stay."""
    chosen, left, seen = set[tuple[int, int]](), Counter[str](), set[object]()
    from workbench.redrive.letter_headers import Reader

    for letter in letters:
        origin = Reader().origin(letter.headers)
        name = origin.topic, origin.partition, origin.offset, origin.round, letter.key, letter.value
        if request.selection.errors and origin.error not in request.selection.errors:
            left["not_selected"] += 1
        elif origin.round >= request.max_rounds:
            left["poison"] += 1
        elif (request.dedup is Dedup.ORIGIN and origin.offset is not None and name in seen) or (
            request.dedup is Dedup.CONTENT and (letter.key, letter.value) in seen
        ):
            left["duplicate"] += 1
        else:
            seen.add(name if request.dedup is Dedup.ORIGIN else (letter.key, letter.value))
            chosen.add((letter.partition, letter.offset))
    return chosen, left


def request_for(errors: list[str], rounds: int, dedup: Dedup, order: Order = Order.ORIGIN) -> RedriveRequest:
    """A request for the topic of these tests."""
    return RedriveRequest(
        cluster="mine", topic=TOPIC, selection=Selection(errors=errors), max_rounds=rounds, dedup=dedup, order=order
    )


@given(
    LETTERS,
    st.sets(st.sampled_from(["Timeout", "Bad", "x"]), max_size=2),
    st.integers(1, 5),
    st.sampled_from(list(Dedup)),
)
def test_a_plan_takes_what_a_naive_reading_takes(rows: list, errors: set[str], rounds: int, dedup: Dedup) -> None:  # type: ignore[type-arg]
    """By error, rounds and duplicates, with the reasons of the others."""
    lives = (it._replace(value=b"v%d" % (it.timestamp_ms % 2)) for it in letters_from(rows))  # of the source topic
    letters, request = list(lives), request_for(sorted(errors), rounds, dedup)
    chosen, left = naive_plan(letters, request)
    if not chosen:
        with pytest.raises(GuardError, match="No letter"):
            plan_from(letters, request)
        return
    plan = plan_from(letters, request)
    assert {(number, offset) for number, some in plan.planned().items() for offset in some} == chosen
    assert plan.left == {name: number for name, number in sorted(left.items()) if number}
    assert RedrivePlan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan


def run_of(plan: RedrivePlan, cluster: FakeCluster, folder: Path) -> Redrive:
    """A run on a cluster in memory."""
    return Redrive(
        plan=plan,
        letters=cluster,
        make_sink=lambda: FakeSink(cluster),
        look=lambda: now_of(plan, cluster, Ledger(folder / "ledger")),
        topics=lambda: now_of(plan, cluster, Ledger(folder / "ledger")).cluster,
        journal=Journal(path=folder / "journal.jsonl"),
        ledger=Ledger(folder / "ledger"),
        sleep=lambda _: None,
        clock=_ticking(),
    )


def _ticking() -> Callable[[], float]:
    """A clock that is 0.2 s later each time: transactions end after three looks."""
    now = [0.0]

    def clock() -> float:
        now[0] += 0.2
        return now[0]

    return clock


def test_a_run_that_was_killed_before_it_told_so_is_told_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The ledger knows that the plan is done; the journal must not end with an interruption for good."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    letters = [letter_of(0, at) for at in range(5)]
    plan, cluster = plan_from(letters), FakeCluster(letters)
    run_of(plan, cluster, tmp_path).run()
    journal = run_of(plan, cluster, tmp_path).journal
    killed_before_its_last_line(journal)
    for _ in range(2):
        assert run_of(plan, cluster, tmp_path).run().outcome is RedriveOutcome.DONE
    assert [(it.phase, it.outcome) for it in journal.read()[0]] == [("begin", None), ("end", "done")]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(LETTERS, st.lists(st.integers(0, 40), max_size=8), st.sampled_from(list(Order)))
def test_killed_anywhere_each_letter_is_produced_once(
    monkeypatch: pytest.MonkeyPatch,
    rows: list,  # type: ignore[type-arg]
    kills: list[int],
    order: Order,
) -> None:
    """Any number of kills between any two steps; the order of each key is that of its source records."""
    letters = letters_from(rows)
    plan = plan_from(letters, request_for([], 10, Dedup.ORIGIN, order))
    cluster = FakeCluster(letters)
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv("XDG_STATE_HOME", name)
        for steps in kills:
            cluster.steps_left = steps
            with suppress(KilledError):
                run_of(plan, cluster, Path(name)).run()
        cluster.steps_left = None
        receipt = run_of(plan, cluster, Path(name)).run()
        assert receipt.outcome is RedriveOutcome.DONE
        assert run_of(plan, cluster, Path(name)).run().produced == 0  # once more is safe
    places = [dict(headers)[LETTER_HEADER] for *_, headers in cluster.records]
    wanted = [f"{number}:{offset}".encode() for number, some in plan.planned().items() for offset in some]
    assert sorted(places) == sorted(wanted)
    assert {topic for topic, *_ in cluster.records} == {SOURCE}
    by_place = {f"{it.partition}:{it.offset}".encode(): it for it in letters}
    produced = [by_place[place] for place in places]
    for key in (b"a", b"b", b"c"):
        mine = [letter for letter in produced if letter.key == key]
        origins = [dict(letter.headers).get("wb_offset") for letter in mine]
        if order is Order.ORIGIN and all(origins):
            assert [int(it) for it in origins if it] == sorted(int(it) for it in origins if it)
        if order is Order.LOG or not all(origins):
            for number in range(3):
                offsets = [letter.offset for letter in mine if letter.partition == number]
                assert order is Order.ORIGIN or offsets == sorted(offsets)
