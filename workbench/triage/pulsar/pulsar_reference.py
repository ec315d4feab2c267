"""Questions about subscriptions of Pulsar for people (`question_trees_by_queue`): `workbench tree`, docs, runbooks, findings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from workbench.humanize import significant
from workbench.triage.pulsar.pulsar_facts import FACTS
from workbench.triage.pulsar.pulsar_questions import LEAVES, QUESTIONS
from workbench.triage.pulsar.question_types import NOT_KNOWN, DispatchQuestion, Test
from workbench.triage.search_tree_by_words import named_in, said_most, said_words
from workbench.triage.tree_document_parts import SAID, question_document, said_of
from workbench.triage.verdict_names import Answer, AnyVerdict

__all__ = ["LEAVES"]  # of this tree, too

_BY = {
    "gate": "if it cannot be answered: cannot_tell",
    "proof": "if it cannot be answered: cannot_tell, unless a later cause is proven",
    "side": "a side question: if it cannot be answered, go on, but nothing is then called healthy",
}
_PULSAR = frozenset({"pulsar", "subscription", "subscriptions"})
_BY_NAME = {name: it for it in QUESTIONS for name in (*map(str, it.verdicts), it.short.rstrip("?"), it.id)}
# Other words for questions, as `search_tree_by_words.OF_GROUPS`: those that mean nothing of a Kafka, and those that count where a
# subscription is asked for.
_OWN = {
    "unacked": "blocked_on_unacked", "unacknowledged": "blocked_on_unacked", "mark delete": "hole_in_acks",
    "dispatcher": "dispatcher_stands", "permit": "consumers_full", "redelivery": "sent_again", "redelivered": "sent_again",
    "redeliveries": "sent_again", "bookie": "bookies_avoided", "bookkeeper": "bookies_avoided", "unload": "unloaded_again",
    "bundle": "unloaded_again", "ttl": "expiring", "backlog quota": "expiring", "key shared": "hashes_blocked",
    "load report": "bad_load_report",
}  # fmt: skip
_WORDS = {
    **_OWN, "ack": "hole_in_acks", "hole": "hole_in_acks", "stuck": "dispatcher_stands", "consumer slow": "consumers_full",
    "slow": "consumers_full", "cache": "sent_again_from_bookies", "quota": "expiring", "loss": "expiring", "retention": "expiring",
    "key": "hashes_blocked", "hash": "hashes_blocked", "dead": "dead_subscription", "no consumers": "dead_subscription",
    "throttle": "dispatch_throttled", "rate limit": "dispatch_throttled", "delayed": "only_delayed", "late": "behind",
    "backlog": "behind", "connected": "nobody_connected",
}  # fmt: skip
_NOT_ASKED = (
    "Each partition is judged alone: neither partitions nor consumers are compared with each other (no hot partition, no slow member)."
    " Too few consumers show as `no_permits`: they hold all that they take."
)


def asked_for(text: str, of_groups: Collection[str]) -> list[DispatchQuestion]:
    """Questions that a text names, or that lead to a verdict that it names; all of them if it names only Pulsar itself.

    `of_groups` are names of Kafka's questions and verdicts: these ask for a subscription only if the text says so.
    """
    says_so = bool(_PULSAR & set(said_words(text).split())) or (text in _BY_NAME and text not in of_groups)
    theirs = set(map(said_words, of_groups))
    own = [it for it in _BY_NAME if said_words(it) not in theirs]
    if not says_so and not named_in(text, own, _OWN):
        return []
    return named(text) or list(QUESTIONS)


def named(text: str) -> list[DispatchQuestion]:
    """Questions that a text about a subscription names, in their order."""
    found = {_BY_NAME[it].id for it in named_in(text, _BY_NAME, _WORDS)}
    return [it for it in QUESTIONS if it.id in found]


def beside(text: str) -> str:
    """A line for a page about Kafka's groups: how to ask this tree the same; empty if it does not name it."""
    found = " ".join(it.id for it in named(text))
    return f"Of a subscription of Pulsar: workbench tree pulsar {found}" if found else ""


def searched(text: str) -> list[DispatchQuestion]:
    """Questions that say most of its words."""
    found = said_most(text, {it.id: as_text([it]) for it in QUESTIONS})
    return [it for it in QUESTIONS if it.id in found]


def document(questions: list[DispatchQuestion]) -> dict[str, Any]:
    """The questions in the form of `workbench.tree/1`."""
    found = [
        question_document(
            it,
            lambda rule: [compared_words(test) for test in rule.tests],
            number=QUESTIONS.index(it) + 1,
            needs=[],
            causes=[],
            yes=_outcome(it, Answer.YES),
            no=_outcome(it, Answer.NO),
        )
        for it in questions
    ]
    return {"schema": "workbench.tree/1", "questions": found, "words": [], "numbers": []}


def as_text(questions: list[DispatchQuestion]) -> str:
    """For a terminal."""
    lines = ["Asked in this order; the first yes is the verdict.", ""] if len(questions) > 1 else []
    if len(questions) == len(QUESTIONS):
        lines += [
            *(f"{number:>2}  {it.id:<24}{it.question}" for number, it in enumerate(QUESTIONS, 1)),
            "",
            _NOT_ASKED,
            "",
        ]
    for it in questions:
        lines += [
            f"{QUESTIONS.index(it) + 1:>2}  {it.question} (Pulsar)",
            f"    {it.id}: {_way(it, Answer.YES)}; {_way(it, Answer.NO)}",
            f"    {_BY[it.by]}",
        ]
        for rule in it.rules:
            lines.append(f"    {said_of(rule):<12}{rule.because}")
            lines += [f"                {compared_words(test)}" for test in rule.tests]
            if rule.look is not None:
                lines.append(f"                to decide: {rule.look}")
        lines.append("")
    return "\n".join(lines).rstrip()


def as_markdown() -> list[str]:
    """Lines of docs/tree.md."""
    lines = [
        "",
        "## Subscriptions of Pulsar",
        "",
        "Of a [Pulsar](pulsar.md) other questions are asked, about each partition, after two looks at it some seconds apart. The first"
        " rule that holds answers; all of its comparisons hold, and what is not told does not hold. " + _NOT_ASKED,
    ]
    for number, it in enumerate(QUESTIONS, 1):
        lines += ["", f"### {number}. {it.question}", ""]
        lines.append(f"`{it.id}` · {_way(it, Answer.YES)} · {_way(it, Answer.NO)} · {_BY[it.by]}")
        lines += ["", "| answer | because | compares |", "|---|---|---|"]
        for rule in it.rules:
            look = f" To decide: {rule.look}." if rule.look is not None else ""
            lines.append(
                f"| {said_of(rule)} | {rule.because}.{look} | {'<br>'.join(map(compared_words, rule.tests))} |"
            )
    return lines


def compared_words(test: Test) -> str:
    """A comparison: "age of the oldest entry >= time to live"; of a flag yes or no."""
    name = FACTS[test.fact][0]
    if test.relation == NOT_KNOWN:
        return f"{name}: not told"
    if test.is_flag:
        return f"{name}: {'yes' if test.limit and test.relation == '=' else 'no' if test.relation == '=' else 'told'}"
    if test.of is None:
        return f"{name} {test.relation} {significant(float(test.limit))}"
    of = "the objective" if test.of == "objective_seconds" else FACTS[test.of][0]
    return f"{name} {test.relation} " + (of if test.limit == 1 else f"{significant(float(test.limit))} × {of}")


def _way(it: DispatchQuestion, answer: Answer) -> str:
    to = _outcome(it, answer)
    return f"cannot be {SAID[answer]}" if to == "never" else f"{SAID[answer]} → {to}"


def _outcome(it: DispatchQuestion, answer: Answer) -> str:
    verdict = it.yes if answer is Answer.YES else it.no
    if verdict is not None:
        return str(verdict)
    after = QUESTIONS.index(it) + 1
    if not any(rule.answer is answer for rule in it.rules):
        return "never"
    return f"question {QUESTIONS[after].id}" if after < len(QUESTIONS) else "cannot_tell"


# Steps and picture of runbooks


def way_to(verdict: AnyVerdict) -> list[tuple[DispatchQuestion, Answer]]:
    """The questions up to a verdict, each with the answer that leads on; the last one leads to it."""
    way: list[tuple[DispatchQuestion, Answer]] = []
    for question in QUESTIONS:
        if verdict in question.verdicts:
            return [*way, (question, Answer.YES if question.yes is verdict else Answer.NO)]
        way.append((question, Answer.YES if question.no is not None else Answer.NO))
    return []


def diagnosis(verdict: AnyVerdict) -> str:
    """Write numbered steps in Markdown; of the last one every reason."""
    way = way_to(verdict)
    return "\n".join(_step(number, *it, last=number == len(way)) for number, it in enumerate(way, 1))


def picture(verdict: AnyVerdict) -> str:
    """Draw the questions as text, with those on the way to the verdict marked."""
    taken = {question.id: answer for question, answer in way_to(verdict)}
    lines = []
    for number, it in enumerate(QUESTIONS, 1):
        mark = ">" if it.id in taken else " "
        ends = f"  {' | '.join(map(str, it.verdicts))}" if it.verdicts else ""
        lines.append(f"{mark} {number:>2} {it.short:<24}{taken.get(it.id, ''):<5}{ends}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```"


def _step(number: int, question: DispatchQuestion, answer: Answer, *, last: bool) -> str:
    rules = [rule for rule in question.rules if rule.answer is answer and (last or rule.tests)]
    head = f"{number}. `{question.id}` {question.question} **{answer}**"
    if not last:
        checked = dict.fromkeys(FACTS[test.fact][0] for rule in question.rules for test in rule.tests)
        return f"{head}\n   Check {'; '.join(checked)}." if checked else head
    reasons = (f"{it.because[0].upper()}{it.because[1:]}: {', '.join(map(compared_words, it.tests))}" for it in rules)
    return "\n".join([head, *(f"   - {it}." for it in reasons)])
