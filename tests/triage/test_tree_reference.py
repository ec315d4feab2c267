"""The tree as a document: printed from the code, for every question and rule."""

from __future__ import annotations

import ast
import json
import pickle
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.reference.valid import valid
from tests.triage.made import subscription
from workbench.cli import root
from workbench.judgement_numbers import all_numbers
from workbench.thresholds import Thresholds
from workbench.triage.build_finding import because
from workbench.triage.facts.reasons_within_verdict import PROCESS_CAUSES, STALL_CAUSES, STORM_CAUSES
from workbench.triage.facts.work_or_arrivals import WORK_REASONS
from workbench.triage.meaning_of_rule_words import TERMS, terms_in
from workbench.triage.question_order import TREE
from workbench.triage.tree_reference import as_markdown, as_text, document
from workbench.triage.verdict_names import Verdict

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tree.md"


def test_the_page_is_what_the_code_says() -> None:
    """docs/tree.md is `workbench tree --markdown`."""
    assert PAGE.read_text(encoding="utf-8") == as_markdown(), "write it again: workbench tree --markdown > docs/tree.md"
    printed = CliRunner().invoke(root, ["tree", "--markdown"])
    assert printed.output == as_markdown()


def test_the_document_has_every_question_rule_and_number() -> None:
    """`workbench.tree/1`: rules by what they answer, in the order in which they are asked; each setting once, with its reason."""
    found = document()
    assert [it["id"] for it in found["questions"]] == list(TREE)
    for question in found["questions"]:
        rules = [it["id"] for name in ("proves", "contradicts", "leaves_open") for it in question[name]]
        assert sorted(rules) == sorted(question["order"])
    settings = [it for it in found["numbers"] if it["origin"] == "setting"]
    assert [it["name"] for it in settings] == list(Thresholds.model_fields)
    assert all(it["why"] for it in found["numbers"])


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("throttled", ["throttled"]),
        ("stuck_partition", ["stuck", "frozen"]),
        ("healthy", ["silent"]),
        ("lagging", ["lagging"]),
    ],
)
def test_one_cause_is_what_leads_to_it(name: str, questions: list[str]) -> None:
    """By the verdict or by the question."""
    printed = CliRunner().invoke(root, ["tree", name, "--json"])
    assert [it["id"] for it in json.loads(printed.output)["questions"]] == questions


@pytest.mark.parametrize(
    ("name", "questions", "says"),
    [
        ("burst", ["threads", "burst"], "15 min of it on"),
        ("open_transaction", ["stuck"], "last stable offset"),
        ("restoring", ["stuck"], "do not restart"),
        ("partition stopped", ["frozen"], "twice its usual time between two commits"),
        ("draining", ["draining"], "within 1 h or twice the group's present time lag"),
        ("stale_seconds", ["data_usable"], "2 min 15 s by default"),
        ("hot", ["hot_partition"], "3 × min(mean, median)"),
        ("skipped", ["lost"], "A pace alone proves nothing"),
        ("cannot_tell", [], "the look that would decide"),
    ],
)
def test_words_of_screens_and_causes_within_are_understood(name: str, questions: list[str], says: str) -> None:
    """Each with the numbers behind it, and the questions that use it."""
    printed = CliRunner().invoke(root, ["tree", name, "--json"])
    told = json.loads(printed.output)
    assert [it["id"] for it in told["questions"]] == questions
    assert says in " ".join(it["means"] for it in told["words"])
    assert says in " ".join(CliRunner().invoke(root, ["tree", name]).output.split())


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("when is a partition hot?", "3 × min(mean, median)"),
        ("why not too few consumers here?", "it reads faster than records arrive"),
        ("what is late?", "(2 min by default), plus the usual time between two of its commits"),
        ("how long must a lag stand to be stuck?", "1 min 30 s, whichever is shorter"),
        ("when is a group recovered?", "Healthy now, and late in the window"),
        ("what is a quick step?", "50,000 messages/s or more in all partitions"),
        ("what proves a throttle?", "throttle_seconds > 0.01 s (default of the setting throttle_seconds)"),
        (
            "what if nothing exports throttling?",
            "no client tells its throttle time, and it is not known to be at a quota",
        ),
        ("how many rebalances are a storm?", "rebalances >= 4 in the window (default of the setting rebalances)"),
        ("when is data stale?", "2 min 15 s by default"),
        ("what is usual pace?", "At 0.95 × or more it is the usual pace"),
        ("when is a consumer stopped, and not only slow?", "the group has no members, and no commit is seen to move"),
        ("how old may a message get before it counts?", "is older than the group's `time_lag_objective`"),
        ("when is it healthy although messages wait?", "Nothing is late, grows or stands still"),
        ("what is a burst?", "arrival_ratio >= 2 × the baseline (default of the setting burst_ratio)"),
        ("when does it say that records were lost?", "retention deleted records before they were read"),
        ("when is the network slow?", "rtt_seconds >= 3 × rtt_baseline_seconds (default of the setting rtt_ratio)"),
        ("why can it not tell?", "the look that would decide"),
        ("when does a member hang?", "has not polled for more than `poll_age_seconds`"),
        ("slow processing, not a slow dependency?", "15 all_slow: a yes is the verdict slow_downstream"),
        ("what does keeping up mean?", "Not behind"),
        ("can it tell with a gap of ten minutes?", "2.5 × the usual time between two samples"),
        ("is cold data read from disk?", "what it reads next is in remote storage alone"),
        ("does it look at the page cache?", "not of brokers' own disks"),
        ("member left and traffic doubled, which?", "8 consuming: a yes leads on"),
        ("FAR", "far more: no variation of the same load"),
        ("two faults at once", "as a second cause with its share"),
        ("not_ruled_out", "that one is listed as `not_ruled_out`"),
        ("who slows whom on a broker", "`workbench impact` names who slows whom"),
        ("what does skip_pace_ratio do", "skipped records, not read them"),
        ("offset jumped backwards", "plus 10 messages: a member that hands over commits so late"),
        ("how old may the data be?", "2 min 15 s by default"),
        ("catching up", "Of a subscription of Pulsar: workbench tree pulsar catching_up"),
        ("rebalance_storm", "one restart makes up to 3 (leave, join, hand-over)"),
        ("what contradicts poison_record?", "commit_fails is named instead: what arrives there is read"),
        ("order", "who is busy is not held up from outside"),
        ("consumer_stopped", "no → batch_missed if a run that was due has not come, else consumer_stopped"),
        ("commit_fails", "read_share >= 0.8 of what arrives there (measured: not clearly less"),
        ("when is a processor slow?", "slowest_slow_down >= 3 × its baseline (default of the setting slow_ratio)"),
    ],
)
def test_a_question_in_a_persons_words_has_its_answer(asked: str, says: str) -> None:
    """From one command."""
    printed = CliRunner().invoke(root, ["tree", asked])
    assert printed.exit_code == 0
    assert says in " ".join(printed.output.split())


def test_a_cause_shows_the_ways_to_it() -> None:
    """By the names of the questions, as a finding has them."""
    printed = " ".join(CliRunner().invoke(root, ["tree", "what", "proves", "throttling?"]).output.split())
    way = "data_usable yes, lost no, reset no, lagging yes, consuming yes, rebalancing no, stuck no, queue_backed_up no, throttled yes"
    assert way in printed


@pytest.mark.parametrize(
    ("asked", "questions"),
    [
        ("if a throttle and a slow handler are both there, which is named?", ["one_slow", "throttled"]),
        ("why is my consumer slow", ["queue_backed_up"]),
        ("when is the lag growing?", ["lagging"]),
        ("poison message", ["stuck"]),
        ("17", ["throttled"]),
        ("poll_age_seconds", ["consuming"]),
        ("burst_ratio", ["burst"]),
        ("SEVERAL", ["rebalancing"]),
        ("lost to retention while catching up", ["lost", "draining"]),
        ("does rebalancing beat a slow consumer?", ["rebalancing", "queue_backed_up"]),
    ],
)
def test_what_is_asked_finds_each_question(asked: str, questions: list[str]) -> None:
    """Names, numbers of questions, settings and features; of two causes, both in their order."""
    found = [it["id"] for it in document(asked)["questions"]]
    assert set(questions) <= set(found)
    assert [it for it in found if it in questions] == questions


def test_a_cause_within_a_verdict_is_found_with_the_reasons_for_it() -> None:
    """Each that a finding can name: the reasons decide, and are what is printed."""
    for reason in (*PROCESS_CAUSES, *STALL_CAUSES, *STORM_CAUSES):
        [question] = document(reason.says)["questions"]
        assert reason.because in [it["because"] for it in question["causes"] if it["cause"] == reason.says]
        assert f"{reason.says}: {reason.because}" in " ".join(as_text(reason.says).split())


@pytest.mark.parametrize(
    ("asked", "questions"),
    [
        ("when is a subscription blocked on unacked messages?", ["unacked_limit"]),
        ("dispatcher stuck or consumer slow?", ["dispatcher_stands", "consumers_full"]),
        ("pulsar: is it throttled", ["rate_limited"]),
        ("do redeliveries hold it up", ["sent_again"]),
        ("is the bookie in quarantine", ["bookies_avoided"]),
        ("when does a TTL lose messages", ["expiring"]),
        ("ack_hole", ["hole_in_acks"]),
        ("which hashes keep entries back?", ["hashes_blocked"]),
    ],
)
def test_a_question_about_a_subscription_of_pulsar_is_answered_by_pulsars_tree(
    asked: str, questions: list[str]
) -> None:
    """In a person's words, and in order; the document is one of the tree's."""
    printed = CliRunner().invoke(root, ["tree", asked, "--json"])
    assert [it["id"] for it in valid("tree", json.loads(printed.output))["questions"]] == questions


def test_the_whole_tree_and_pulsars_begin_with_the_questions_alone() -> None:
    """One line each, in their order; a word that two names stand for is printed once."""
    assert re.findall(r"^ {4}[ \d]\d  (\w+)", as_text().split("\n\n")[0], flags=re.MULTILINE) == list(TREE)
    of_pulsar = CliRunner().invoke(root, ["tree", "subscription"]).output
    assert of_pulsar.index("20  consumers_full") < of_pulsar.index("proof") and "cannot be yes" in of_pulsar
    assert [it["name"] for it in document("brokers, leaderless or under replicated")["words"]] == ["brokers"]


def test_of_two_causes_it_says_what_a_yes_of_each_does() -> None:
    """A yes that only leads on comes before nothing."""
    printed = " ".join(as_text("slow consumer or hot partition").split())
    assert "11 queue_backed_up: a yes leads on to question delay_full, a no to question throttled" in printed
    assert "21 hot_partition: a yes is the verdict hot_partition" in printed


def test_the_rule_shows_the_facts_of_own_work_in_their_order() -> None:
    """What the fact says is what the first rule that holds says."""
    rules = [it.id for it in TREE["queue_backed_up"].rules]
    assert rules[-len(WORK_REASONS) :] == [it.id for it in WORK_REASONS]


def test_every_word_is_used_or_explains_the_page() -> None:
    """A word that no sentence uses, and that the page's own text does not, explains nothing."""
    rules = [rule.because for node in TREE.values() for rule in node.rules]
    used = {it.name for it in terms_in([*rules, *(node.question for node in TREE.values())])}
    assert {it.name for it in TERMS} - used <= PAGES_OWN


PAGES_OWN = {
    "gap in the data",
    "committed offset",
    "nearest change",
    "order",
    "origin",
    "healthy",
    "window",
    "recovered",
    "stale_seconds",
    "slow-down",
    "cannot_tell",
    "proof",
    "by elimination",
    "side question",
}


def test_an_unknown_cause_is_a_usage_error_with_the_nearest_name() -> None:
    """Exit code 2, and no traceback."""
    printed = CliRunner().invoke(root, ["tree", "throtled"], standalone_mode=False)
    assert "No question, verdict or word of the tree is named 'throtled'" in str(
        printed.exception
    ) and "throttled" in str(printed.exception)


def test_what_is_shown_is_what_was_compared() -> None:
    """The limit of data that are too old is the one that the rule uses, and not the setting that it is made of."""
    row = subscription(
        last_sample_age_seconds=40.0, stale_seconds=135.0, reasons={"data_usable": "usable"}, verdict=Verdict.HEALTHY
    )
    shown = because(TREE["data_usable"], row)
    assert shown is not None
    [operand] = shown.operands
    assert (operand.name, operand.value, operand.relation, operand.limit) == (
        "last_sample_age_seconds",
        40.0,
        "<=",
        135.0,
    )


def test_an_open_answer_says_what_would_decide() -> None:
    """The rule that left it open has a sentence, and a look."""
    row = subscription(reasons={"throttled": "not_measured"})
    shown = because(TREE["throttled"], row)
    assert shown is not None
    assert (
        shown.sentence == "no client tells its throttle time, and it is not known to be at a quota"
        and shown.look is not None
    )


# Room and sizes, no judgement: pieces of work, resolutions of searches, units.
SIZES = re.compile(
    r"_?(PIECE_ROWS|ONE_TASK_ROWS|SEARCHED|STEPS|BINS|MICRO|MOST_RUNS|HINGE_\w+|TURNS|WEEK_MS|"
    r"SAME_SECONDS|BASELINE_PERIODS|NOW|LATER)$"
)
NO_JUDGEMENT = (
    "archive_warm_up.py",
    "chart_series.py",
    "tree_reference.py",
)  # a first made-up job; what is drawn; a page's lines
PLAIN = {0, 1, -1, 2, 0.5, 1e6, 1000, 1e-6, 1e-9}


def test_no_number_of_the_judgement_stands_outside_of_the_registry() -> None:
    """At most 70 with the settings; no bare number in triage, histories or features, but for units, halves and sizes."""
    assert len(all_numbers()) + len(Thresholds.model_fields) <= 70
    assert all(it.why and it.unit for it in all_numbers().values())
    for it in all_numbers().values():
        again = pickle.loads(pickle.dumps(it))
        assert (again, again.unit, again.why, again.origin) == (it, it.unit, it.why, it.origin)
    found = []
    for folder in ("triage", "history", "features"):
        for path in sorted((ROOT / "workbench" / folder).rglob("*.py")):
            if path.name in NO_JUDGEMENT:
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            sizes = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign)
                and all(
                    SIZES.match(name.id) for it in node.targets for name in ast.walk(it) if isinstance(name, ast.Name)
                )
            ]
            numbered = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.keyword) and node.arg in ("number", "most", "parameters")
            ]
            left_out = {id(node) for it in (*sizes, *numbered) for node in ast.walk(it)}
            found += [
                f"{path.name}:{node.lineno}: {node.value}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, int | float)
                and not isinstance(node.value, bool)
                and node.value not in PLAIN
                and id(node) not in left_out
            ]
    assert not found, found
