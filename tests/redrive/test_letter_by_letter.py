"""One letter has its own outcome, bytes and time; other plans, machines and groups are asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.redrive.fakes import FakeCluster
from tests.redrive.making import LETTERS, SOURCE, TOPIC, gateway_of, letter_of, plan_from
from tests.redrive.model import Broker, ModelSink
from tests.replay.fakes import FakeGateway
from workbench.queues.replay_port import TopicSettings
from workbench.redrive.commit_marks import Mark, PlanProgress, PlanState, marks_of
from workbench.redrive.groups_reading_targets import audience_words
from workbench.redrive.letter_headers import Letter
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.plan import RedriveRequest, make_redrive_plan
from workbench.redrive.planfile import Dedup, RedrivePlan
from workbench.redrive.receipt import RedriveOutcome, RedriveReceipt, keep_receipt, redrive_receipt_path
from workbench.redrive.redrive_ledger import Ledger
from workbench.redrive.selection import Selection
from workbench.redrive.transaction_size import LetterFlow


def test_a_transaction_that_is_too_slow_becomes_smaller() -> None:
    """Down to one letter; what the target takes quickly grows again."""
    flow = LetterFlow(most=20_000)
    places = [(0, at) for at in range(10)]
    assert flow.has_room(9, 200_000, 10_000)
    assert flow.was_slow(places, 200_000)
    assert not flow.has_room(9, 90_000, 10_000) and flow.has_room(0, 0, 900_000)
    before = flow.bytes
    flow.took(places, before, 0.1)
    assert flow.bytes == 2 * before
    assert not flow.was_slow(places[:1], 900_000)


def test_a_refusal_is_narrowed_down_to_the_letter() -> None:
    """Named by the target, or by halves: each try has fewer letters."""
    flow, bad = LetterFlow(most=20_000), (0, 613)
    left = [(0, at) for at in range(1_000)]
    for _ in range(60):
        batch = [place for place in left if place not in flow.refused][: flow.records]
        if bad in batch:
            flow.was_refused(batch, "INVALID_RECORD", {})
        else:
            flow.took(batch, 1, 0.1)
            left = [place for place in left if place not in batch and place not in flow.refused]
    assert flow.refused == {bad: "INVALID_RECORD"} and not left


def test_texts_of_commits_can_be_read_again() -> None:
    """And whatever else stands there is nobody's mark."""
    text = marks_of(PlanState.BEGUN, "me", [0, 1], {(0, 5): "INVALID_RECORD", (0, 6): "INVALID_RECORD"})[0]
    found = Mark.parse(text)
    assert found is not None and found.text() == text and list(found.refused["INVALID_RECORD"]) == [5, 6]
    assert Mark.parse("") is Mark.parse("wb1 nonsense x") is Mark.parse("wb1 begun me X=7-3") is None


def test_a_known_plan_is_handled_where_kafka_says_nothing(tmp_path: Path) -> None:
    """It may have been discarded elsewhere by an earlier release, which left no trace in Kafka."""
    plan, ledger = plan_from(LETTERS), Ledger(tmp_path)
    ask = (TOPIC, plan.topic_id, plan.cluster_id, lambda _group: {}, list[str]())
    ledger.keep(plan)
    assert ledger.handled(*ask, lambda _plan: PlanProgress()) == ({}, {})
    ledger.know(plan)
    assert len(ledger.handled(*ask, lambda _plan: PlanProgress())[0][0]) == 10
    begun = PlanProgress(positions={0: 3}, marks={0: None})
    found, _ = ledger.handled(*ask, lambda _plan: begun)
    assert len(found[0]) == 10  # a plan of an earlier release, too, keeps what it has not produced yet


def test_what_is_discarded_is_asked_for_with_what_is_handled(tmp_path: Path) -> None:
    """Each plan that has not ended is asked for once."""
    plan, ledger = plan_from(LETTERS), Ledger(tmp_path)
    ledger.keep(plan)
    asked = []

    def progress(it: RedrivePlan) -> PlanProgress:
        asked.append(it.id)
        marks = {0: Mark(state=PlanState.DISCARDED, owner="me")}
        return PlanProgress(positions={0: 0}, marks=marks)

    handled, discarded = ledger.handled(TOPIC, plan.topic_id, plan.cluster_id, lambda _group: {}, [], progress)
    assert handled == discarded and len(discarded[0]) == 10 and asked == [plan.id]


def test_a_receipt_is_not_replaced_by_one_of_a_run_that_produced_nothing(tmp_path: Path) -> None:
    """A refused or empty run later on."""
    path = tmp_path / "plan.json"
    made = RedriveReceipt(plan="x", outcome=RedriveOutcome.DONE, letters=10, produced=10)
    keep_receipt(path, made)
    text = redrive_receipt_path(path).read_text()
    keep_receipt(path, replace(made, outcome=RedriveOutcome.REFUSED, produced=0))
    assert redrive_receipt_path(path).read_text() == text


def test_letters_of_a_recreated_topic_are_no_duplicates() -> None:
    """The same offset, and another key, value or timestamp; a letter that says no timestamp may be either."""
    first = letter_of(0, 0, b"k", (0, 7))
    dated = [
        first._replace(offset=at, headers=[*first.headers, ("wb_timestamp_ms", b"%d" % ms)])
        for at, ms in ((1, 5), (2, 9))
    ]
    plan = plan_from([first, *dated, letter_of(0, 3, b"other", (0, 7))])
    assert (plan.letters, plan.left) == (3, {"duplicate": 1})


@pytest.mark.parametrize(
    ("named", "place"),
    [
        ("t/n/orders", (7, 3, -1)),
        ("t/n/orders", (7, 3, -1, 4)),
        ("t/n/orders-partition-2", (7, 3, -1)),
        ("t/n/orders", (7, 3, 2)),
    ],
)
def test_a_message_of_pulsar_that_was_given_up_twice_is_one_record(named: str, place: tuple[int, ...]) -> None:
    """Of a topic without partitions, too, whose message ids have the partition -1; a consumer may read one partition by its name."""
    said = ":".join(map(str, place)).encode()
    headers = [("REAL_TOPIC", f"persistent://{named}".encode()), ("ORIGIN_MESSAGE_ID", said)]
    twins = [Letter(0, at, 1_700_000_000_000 + at, b"k", b"v", headers) for at in range(2)]
    other = twins[0]._replace(offset=2, headers=[headers[0], ("ORIGIN_MESSAGE_ID", said.replace(b"7", b"8", 1))])
    letters = [*twins, other]
    gateway = FakeGateway(
        {
            (TOPIC, 0): [(it.offset, it.timestamp_ms) for it in letters],
            **{("t/n/orders", number): [] for number in range(3)},
        }
    )
    plan = plan_from(letters, gateway=gateway)
    assert (plan.partitions[0].picks, plan.left) == ("0 2", {"duplicate": 1})
    assert {it[0] for it in plan.targets[0].origins} == {2 if "2" in named or place[2] == 2 else 0}


@pytest.mark.parametrize(
    ("name", "warns"), [("t/n/orders-billing-RETRY", True), ("t/n/orders-billing-DLQ", False), (TOPIC, False)]
)
def test_a_plan_of_retries_says_that_their_consumers_take_them_too(name: str, warns: bool) -> None:
    """They are messages of a subscription, and no dead letters yet."""
    records = {(name, 0): [(it.offset, it.timestamp_ms) for it in LETTERS], (SOURCE, 0): []}
    asked = RedriveRequest(cluster="mine", topic=name)
    plan = plan_from(LETTERS, asked, gateway=FakeGateway(records))
    assert bool([it for it in plan.warnings if "redriven is handled twice" in it]) == warns


def test_records_without_a_key_that_share_a_place_are_told_apart() -> None:
    """Frameworks that write no timestamp, and records without a key: a value tells them apart, a tombstone from an empty one too."""
    same = [letter_of(0, at, None, (0, 7)) for at in range(5)]
    values = (b"first life", b"second life", b"first life", b"", None)
    plan = plan_from([it._replace(value=value) for it, value in zip(same, values, strict=True)])
    assert (plan.letters, plan.left) == (4, {"duplicate": 1})
    assert plan.partitions[0].picks == "0-1 3-4"


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("selected", [{}, {"offsets": ["0:1-2"]}, {"errors": ["Other"]}])
def test_a_second_letter_of_a_handled_record_stays(first: int, selected: dict[str, Any]) -> None:
    """Its process was killed between letter and commit. Whichever of the two an earlier plan has taken, and what is selected now."""
    twins = [letter_of(0, 0, b"k", (0, 7)), letter_of(0, 1, b"k", (0, 7), "Other")]
    letters = [*twins, letter_of(0, 2, b"k", (0, 8), "Other")]
    asked = RedriveRequest(cluster="mine", topic=TOPIC, selection=Selection(**selected), done={0: Picks.of([first])})
    plan = plan_from(letters, asked)
    assert plan.partitions[0].picks == "2"
    assert sum(plan.left.values()) == 2
    both = replace(asked, dedup=Dedup.NONE, selection=Selection())
    assert plan_from(letters, both).letters == 2
    other = [it._replace(value=b"another life") if it.offset == 1 - first else it for it in letters]
    assert plan_from(other, replace(asked, selection=Selection())).letters == 2
    discarded = replace(asked, selection=Selection(), discarded={0: Picks.of([first])})
    assert plan_from(letters, discarded).letters == 2  # the record itself was not given up


def test_the_same_content_in_a_later_letter_may_be_another_record() -> None:
    """What was redriven and came back has the content of the letter that was handled, in a topic made anew even its place."""
    for dedup, place in product(Dedup, (7, 50)):
        letters = [letter_of(0, 0, b"k", (0, 7)), letter_of(0, 1, b"k", (0, place), rounds=1)]
        asked = RedriveRequest(cluster="mine", topic=TOPIC, dedup=dedup, done={0: Picks.of([0])})
        assert plan_from(letters, asked).partitions[0].picks == "1"


def test_a_handled_letter_whose_target_is_gone_is_no_matter() -> None:
    """It is only compared: nothing is asked of its topic."""
    gone = letter_of(0, 0, b"k", (0, 7))
    gone = gone._replace(headers=[*gone.headers, ("wb_topic", b"long-gone")])
    asked = RedriveRequest(cluster="mine", topic=TOPIC, done={0: Picks.of([0])})
    plan = plan_from([gone, letter_of(0, 1, b"k", (0, 8))], asked)
    assert [it.topic for it in plan.targets] == [SOURCE]


def test_a_plan_knows_what_its_target_refuses() -> None:
    """A record without a key, into a compacted topic."""
    letters = [*LETTERS, letter_of(0, 10, None, (0, 10))]
    gateway = gateway_of(letters)
    gateway.topic_settings[SOURCE] = TopicSettings(retention_ms=-1, compacted=True)
    plan = make_redrive_plan(
        RedriveRequest(cluster="mine", topic=TOPIC), gateway, FakeCluster(letters), lambda _topic: 1 << 20
    )
    assert (plan.letters, plan.left) == (10, {"no_key": 1})


def test_the_audience_of_a_plan() -> None:
    """Who has read past the records, who gave them up; or that it cannot be told."""
    spring = "kafka_dlt-original-"
    named = [(f"{spring}topic", SOURCE.encode()), (f"{spring}partition", b"0"), (f"{spring}consumer-group", b"ledger")]
    plan = plan_from([it._replace(headers=[*named, (f"{spring}offset", b"%d" % it.offset)]) for it in LETTERS])
    readers = {"mailer": {(SOURCE, 0): 50}, "late": {(SOURCE, 0): 0}, "ledger": {(SOURCE, 0): 50}}
    past, others, gave_up = audience_words(plan, readers)
    assert "'mailer'" in past and "'late'" in others and "'ledger'" in gave_up and plan.gave_up == {"ledger": 10}
    assert "Cannot tell" in audience_words(plan, None)[0]


def test_a_claim_does_not_overwrite_positions() -> None:
    """Another process of the same plan was faster."""
    broker, plan = Broker(letters=LETTERS), plan_from(LETTERS)
    broker.write(plan, {0: 4}, None, marks_of(PlanState.BEGUN, "other", [0], {}))
    found = ModelSink(broker, plan).claim({0: 0}, None, {}, lambda: None)
    assert isinstance(found, PlanProgress) and found.positions == {0: 4}
