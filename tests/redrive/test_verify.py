"""What `dlq verify` and `dlq follow` say: a letter that was left out has its reason, and what cannot be seen is not called missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.redrive.fakes import FakeCluster
from tests.redrive.making import LETTERS, SOURCE, TOPIC, gateway_of, letter_of, plan_from
from tests.replay.fakes import FakeGateway
from workbench.errors import EvidenceError, SourceUnreachableError
from workbench.queues.replay_port import TopicSettings
from workbench.redrive.commit_marks import Place, PlanProgress, PlanState, marks_of
from workbench.redrive.dead_letter_topics import list_topics
from workbench.redrive.follow import RedriveFollower
from workbench.redrive.letter_headers import LETTER_HEADER, PLAN_HEADER, Letter
from workbench.redrive.redrive_ledger import Ledger, ended_of
from workbench.redrive.redrive_ports import LettersGoneError, Positions
from workbench.redrive.selection import Selection
from workbench.redrive.show_letters import count_letters, newest_letters
from workbench.redrive.verify import RedriveCheck, RedriveVerdict, verify_redrive
from workbench.settings import Cluster

PLAN = plan_from(LETTERS)
BAD: dict[Place, str] = {(0, 3): "INVALID_RECORD"}


@dataclass
class Produced:
    """The target after a run of the plan, without some letters."""

    without: set[Place]
    gateway: FakeGateway = field(default_factory=lambda: gateway_of(LETTERS))
    dies_after: int | None = None  # number of records after which retention takes them away
    is_away: bool = False
    notices: bool = True  # whether the reader does
    came_back: list[Letter] = field(default_factory=lambda: LETTERS)

    def __post_init__(self) -> None:
        places = [(0, at) for at in range(10) if (0, at) not in self.without]
        self.records = [
            Letter(0, at, 0, b"k%d" % place[1], LETTERS[place[1]].value, self._headers(place))
            for at, place in enumerate(places)
        ]
        self.gateway.records[SOURCE, 0] = [(it.offset, 0) for it in self.records]

    def _headers(self, place: Place) -> list[tuple[str, bytes | None]]:
        return [(PLAN_HEADER, PLAN.id.encode()), (LETTER_HEADER, b"%d:%d" % place)]

    def letters(self, topic: str) -> FakeCluster:
        """Reader of a topic."""
        if topic == SOURCE and self.dies_after is not None:
            return _Dying(self.records[: self.dies_after], after=self, notices=self.notices)
        return FakeCluster(self.records if topic == SOURCE else self.came_back)

    def check(self, **more: dict[Place, str]) -> RedriveCheck:
        """As `dlq verify`."""
        return verify_redrive(PLAN, self.gateway, self.letters, **more)  # type: ignore[arg-type]


@dataclass
class _Dying(FakeCluster):
    after: Produced | None = None
    notices: bool = True

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        assert self.after is not None
        if not self.after.is_away:
            self.after.gateway.starts[SOURCE, 0] = 8
        yield self.letters, {0: len(self.letters)}
        if not self.notices:
            return
        raise LettersGoneError(f"{SOURCE}-0: out of range")


def test_a_letter_that_was_left_out_is_not_missing(tmp_path: Path) -> None:
    """It is named with the target's reason: by the commits of the plan, or by the ledger when Kafka has forgotten them."""
    made = Produced(without={(0, 3), (0, 7)})
    found = made.check()
    assert (found.missing, found.refused) == ([(0, 3), (0, 7)], {})
    made.gateway.stored[PLAN.id] = {(TOPIC, 0): marks_of(PlanState.DONE, "me", [0], BAD)[0]}
    found = made.check()
    assert (found.verdict, found.missing, found.refused) == (RedriveVerdict.INCOMPLETE, [(0, 7)], BAD)
    words = " ".join(found.sentences())
    assert "1 letter is left out, because the target refuses it: 0:3 (INVALID_RECORD)" in words
    assert "1 letter missing: 0:7" in words
    assert found.document()["refused"] == {"0:3": "INVALID_RECORD"}

    made = Produced(without={(0, 3)})
    ledger = Ledger(tmp_path)
    ledger.keep(PLAN)
    ledger.end(PLAN, ended_of("done", PLAN, PlanProgress(), refused=BAD))
    ended = ledger.ended(PLAN)
    assert ended is not None
    found = made.check(refused=ended.refused_places)
    assert (found.verdict, found.missing, found.refused) == (RedriveVerdict.INCOMPLETE, [], BAD)
    assert not found.content_differs


def test_a_compacted_target_proves_no_letter_missing() -> None:
    """A later record of the key may have replaced it; applied once more, it would come twice."""
    made = Produced(without={(0, 7)})
    made.gateway.topic_settings[SOURCE] = TopicSettings(retention_ms=-1, compacted=True)
    found = made.check()
    assert (found.verdict, found.compacted) == (RedriveVerdict.CANNOT_TELL, [SOURCE])
    assert f"the clean-up of {SOURCE} keeps only the last record of a key" in found.sentences()[0]
    whole = Produced(without=set())
    whole.gateway.topic_settings[SOURCE] = TopicSettings(retention_ms=-1, compacted=True)
    assert whole.check().verdict is RedriveVerdict.VERIFIED


def test_records_that_go_while_they_are_read_are_deleted_ones() -> None:
    """Not an internal error, and nothing is called missing for it; where nothing is known to be gone, it is an error in words."""
    made = Produced(without=set(), dies_after=4)
    found = made.check()
    assert (found.verdict, found.gone) == (RedriveVerdict.CANNOT_TELL, {(SOURCE, 0): 8})
    made = Produced(without=set(), dies_after=4, is_away=True)
    with pytest.raises(EvidenceError, match="deleted while they were read"):
        made.check()


def test_records_that_go_while_they_are_read_are_found_without_the_reader() -> None:
    """A reader of a Pulsar goes on with what is left; what it has read is produced, and the rest is not called missing."""
    found = Produced(without=set(), dies_after=4, notices=False).check()
    assert (found.verdict, found.produced, found.gone) == (RedriveVerdict.CANNOT_TELL, 4, {(SOURCE, 0): 8})
    whole = Produced(without=set(), dies_after=10, notices=False).check()
    assert (whole.verdict, whole.gone) == (RedriveVerdict.VERIFIED, {(SOURCE, 0): 8})


def test_records_with_another_content_are_told_although_older_ones_are_deleted() -> None:
    """All planned records are there, and one differs: that retention took others away excuses nothing."""
    made = Produced(without=set())
    made.records[4] = made.records[4]._replace(value=b"another")
    for _ in range(2):
        found = made.check()
        assert (found.verdict, found.missing, found.content_differs) == (RedriveVerdict.INCOMPLETE, [], [0])
        assert "The content differs from the letters of partition 0" in " ".join(found.sentences())
        plan_ends = PLAN.targets[0].ends[0]
        made.gateway.starts[SOURCE, 0] = plan_ends + 1  # of records before them, of other producers
        made.records[:] = [it._replace(offset=it.offset + 1) for it in made.records]
        made.gateway.records[SOURCE, 0] = [(it.offset, 0) for it in made.records]
    assert made.check().gone


def test_later_letters_that_are_gone_say_nothing_of_the_records() -> None:
    """What came back may be among them; whether the plan's records are there is another question."""
    made = Produced(without={(0, 7)})
    made.gateway.ends[TOPIC, 0], made.gateway.starts[TOPIC, 0] = 40, 30
    found = made.check()
    assert (found.verdict, found.gone, found.letters_gone) == (RedriveVerdict.INCOMPLETE, {}, 20)
    assert "20 offsets of later letters were deleted" in " ".join(found.sentences())


def test_records_that_came_back_into_a_topic_that_was_made_anew_are_seen() -> None:
    """Its offsets begin anew, below the end of the plan; what came back before is not known."""
    made = Produced(without=set())
    back = [letter_of(0, at, b"k", (0, at), error="again") for at in range(2)]
    made.came_back = back
    made.gateway.topic_ids[TOPIC] = "another"
    made.gateway.records[TOPIC, 0] = [(it.offset, 0) for it in back]
    found = made.check()
    assert (found.verdict, found.came_back, found.letters_topic) == (RedriveVerdict.VERIFIED, {"again": 2}, "recreated")
    assert "recreated since the plan was made: whether more records came back before cannot be told" in " ".join(
        found.sentences()
    )
    assert RedriveFollower(PLAN, made.gateway).look().new_letters is None


def test_records_that_came_back_into_a_partition_that_was_added_are_seen() -> None:
    """The plan knows nothing of it."""
    made = Produced(without=set())
    made.came_back = [letter_of(7, 0, b"k", (0, 3), error="again")]
    made.gateway.records[TOPIC, 7] = [(0, 0)]
    found = made.check()
    assert (found.verdict, found.came_back, found.letters_topic) == (RedriveVerdict.VERIFIED, {"again": 1}, None)
    assert RedriveFollower(PLAN, made.gateway).look().new_letters == 1


def test_the_records_of_a_plan_are_verified_without_its_dead_letter_topic() -> None:
    """It was deleted when all was done; only what came back cannot be told."""
    made = Produced(without=set())
    for key in [key for key in made.gateway.records if key[0] == TOPIC]:
        del made.gateway.records[key]
    found = made.check()
    assert (found.verdict, found.came_back, found.letters_topic) == (RedriveVerdict.VERIFIED, {}, "deleted")
    assert "deleted since the plan was made" in " ".join(found.sentences())
    assert RedriveFollower(PLAN, made.gateway).look().new_letters is None


def test_one_topic_that_retention_empties_does_not_hide_the_others() -> None:
    """Of the list of topics; a sample is all that it loses."""
    gateway = gateway_of(LETTERS)
    gateway.records["other-dlt", 0] = [(0, 1)]

    def letters(topic: str) -> FakeCluster:
        return FakeCluster(LETTERS, log_start={0: 99} if topic == TOPIC else {})

    found = {it.topic: it for it in list_topics(gateway, letters, [], {})}
    assert set(found) == {TOPIC, "other-dlt"} and found[TOPIC].sampled == 0 and found[TOPIC].letters == 10


def test_the_number_of_letters_is_a_bound_where_offsets_hold_none() -> None:
    """Markers of transactions and compacted letters have offsets, too."""
    gateway = gateway_of(LETTERS)
    [whole] = list_topics(gateway, lambda _topic: FakeCluster(LETTERS), [], {})
    [found] = list_topics(gateway, lambda _topic: FakeCluster(LETTERS[:4] + LETTERS[6:]), [], {})
    assert (whole.gaps, whole.in_words) == (0, "10")
    assert (found.gaps, found.letters, found.in_words) == (2, 10, "at most 10")


@pytest.mark.parametrize("ordered", [False, True])
def test_follow_does_not_count_what_was_left_out_as_produced(ordered: bool) -> None:
    """Nor what is refused and not reached yet; a plan that is through with it is done."""
    plan = PLAN
    if ordered:  # the letters of a key in the order of their records
        plan = plan_from([it._replace(key=b"k", headers=LETTERS[9 - it.offset].headers) for it in LETTERS])
        assert len(plan.ordered) == 10
    gateway = gateway_of(LETTERS)
    follower = RedriveFollower(plan, gateway)
    assert (follower.look().state, follower.look().is_done) == (None, False)
    refused = {**BAD, (0, 8): "INVALID_RECORD"}
    gateway.groups[plan.id] = {(TOPIC, 0): 10 if ordered else 5}
    gateway.groups[plan.order_group] = {(TOPIC, 0): 7}  # offsets 9 to 3
    gateway.stored[plan.id] = {(TOPIC, 0): marks_of(PlanState.BEGUN, "me", [0], refused)[0]}
    look = follower.look()
    assert (look.produced, look.refused, look.left) == ((5, 2, 3) if ordered else (4, 1, 5))
    assert not look.is_done
    gateway.groups[plan.id] = {(TOPIC, 0): 10}
    gateway.groups[plan.order_group] = {(TOPIC, 0): 10}
    gateway.stored[plan.id] = {(TOPIC, 0): marks_of(PlanState.DONE, "me", [0], refused)[0]}
    look = follower.look()
    assert (look.produced, look.refused, look.left, look.is_done) == (8, 2, 0, True)
    assert look.document()["state"] == "done"


def test_follow_tells_the_end_of_a_plan_that_is_not_done() -> None:
    """A discarded plan has a position, and will never move."""
    gateway = gateway_of(LETTERS)
    gateway.groups[PLAN.id] = {(TOPIC, 0): 0}
    gateway.stored[PLAN.id] = {(TOPIC, 0): marks_of(PlanState.DISCARDED, "me", [0], {})[0]}
    look = RedriveFollower(PLAN, gateway).look()
    assert (look.state, look.is_done, look.produced) == (PlanState.DISCARDED, False, 0)


@pytest.mark.parametrize("silent", [(SOURCE, 0), (SOURCE, 1), (TOPIC, 0)])
def test_a_partition_that_does_not_answer_proves_nothing(silent: tuple[str, int]) -> None:
    """Without a leader, its records are not missing, and nobody knows what came back: no verdict is given."""
    made = Produced(without=set())
    made.gateway.silent = {silent}
    with pytest.raises(
        SourceUnreachableError, match=f"{silent[0]}-{silent[1]} does not answer: Broker: Leader not available"
    ):
        made.check()


def test_letters_behind_a_partition_that_does_not_answer_are_not_shown_as_none() -> None:
    """The newest ones may be there, and a count would be too low."""
    gateway = gateway_of([letter_of(1, 0), *LETTERS])
    gateway.silent = {(TOPIC, 0)}
    asked: dict[str, Any] = {
        "gateway": gateway,
        "letters": FakeCluster([letter_of(1, 0), *LETTERS]),
        "settings": Cluster(name="mine"),
        "topic": TOPIC,
        "selection": Selection(),
        "payload": False,
    }
    for look in (
        lambda: newest_letters(**asked, most=20),
        lambda: count_letters(**asked, kinds=["error"], most=20),
    ):
        with pytest.raises(SourceUnreachableError, match=f"{TOPIC}-0 does not answer"):
            look()


def test_the_list_and_follow_say_what_is_not_known_of_a_partition() -> None:
    """No letters, and none since the plan: both would be an all-clear."""
    gateway = gateway_of(LETTERS)
    gateway.silent = {(TOPIC, 0)}
    [found] = list_topics(gateway, lambda _topic: FakeCluster(LETTERS), [], {})
    assert (found.letters, found.silent) == (0, 1)
    gateway.groups[PLAN.id] = {(TOPIC, 0): 5}
    look = RedriveFollower(PLAN, gateway).look()
    assert (look.produced, look.new_letters) == (5, None)


def test_records_of_a_target_that_was_recreated_are_not_missing() -> None:
    """They were there, or not: a plan of the same letters once more could produce them twice."""
    made = Produced(without=set())
    made.gateway.topic_ids[SOURCE] = "another"
    made.gateway.records[SOURCE, 0] = []
    with pytest.raises(EvidenceError, match=f"{SOURCE}' was deleted and recreated since the plan"):
        made.check()


def test_a_target_that_was_deleted_is_no_broker_that_does_not_answer() -> None:
    """Trying again would not help; one that may not be described is another matter."""
    made = Produced(without=set())
    for number in range(2):
        made.gateway.records.pop((SOURCE, number), None)
    with pytest.raises(EvidenceError, match=f"{SOURCE}' was deleted since the plan was made"):
        made.check()
    made.gateway.denied.add(SOURCE)
    with pytest.raises(SourceUnreachableError):
        made.check()


@pytest.mark.parametrize("is_read_first", [False, True])
@pytest.mark.parametrize("number", [1, 3])
def test_records_of_consumers_that_pass_headers_on_are_not_doubled(is_read_first: bool, number: int) -> None:
    """They name the letter as its own record does, with what the consumer has made of it; in whichever order they are read."""
    made = Produced(without=set())
    copies = [made.records[at]._replace(value=b"enriched", timestamp_ms=9) for at in range(2, 2 + number)]
    both = [*copies, *made.records] if is_read_first else [*made.records, *copies]
    made.records[:] = [it._replace(offset=at) for at, it in enumerate(both)]
    made.gateway.records[SOURCE, 0] = [(it.offset, 0) for it in made.records]
    found = made.check()
    assert (found.verdict, found.doubled, found.carried) == (RedriveVerdict.VERIFIED, [], number)
    assert "consumers that pass headers on" in " ".join(found.sentences())
    # The same content once more is what a second redrive would have made.
    made.records.append(made.records[-1 if is_read_first else 9]._replace(offset=len(made.records)))
    made.gateway.records[SOURCE, 0].append((len(made.records) - 1, 0))
    found = made.check()
    assert (found.verdict, found.doubled, found.carried) == (RedriveVerdict.INCOMPLETE, [(0, 9)], number)
    assert "produced twice; or a consumer has sent" in " ".join(found.sentences())


@pytest.mark.parametrize("topic", [TOPIC, SOURCE])
def test_a_plan_says_what_a_compacted_topic_does_to_letters_of_one_key(topic: str) -> None:
    """Of the letters themselves, and of the records that are made from them."""
    gateway = gateway_of(LETTERS)
    assert "compacted" not in " ".join(plan_from(LETTERS, gateway=gateway).warnings)
    gateway.topic_settings[topic] = TopicSettings(retention_ms=-1, compacted=True)
    words = " ".join(plan_from(LETTERS, gateway=gateway).warnings)
    assert ("may be gone already" in words) == (topic == TOPIC)
    assert ("only the last one stays" in words) == (topic == SOURCE)
