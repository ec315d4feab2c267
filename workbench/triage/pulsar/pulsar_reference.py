"""The questions about subscriptions of Pulsar as a document: for `workbench tree`, and as a part of docs/tree.md."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from workbench.humanize import significant
from workbench.triage.cause import Rule
from workbench.triage.pulsar.dispatch_question import NOT_KNOWN, DispatchQuestion, DispatchRule, Test
from workbench.triage.pulsar.pulsar_facts import FACTS
from workbench.triage.pulsar.pulsar_questions import QUESTIONS
from workbench.triage.tree_search import OF_PULSAR, OF_SUBSCRIPTIONS, named_in, said_most, said_words
from workbench.triage.verdict import Answer

SAID = {Answer.YES: "yes", Answer.NO: "no", Answer.CANNOT_TELL: "cannot tell"}
_BY = {
    "gate": "if it cannot be answered: cannot_tell",
    "proof": "if it cannot be answered: cannot_tell, unless a later cause is proven",
    "side": "a side question: if it cannot be answered, go on, but nothing is then called healthy",
}
_PULSAR = frozenset({"pulsar", "subscription", "subscriptions"})
_BY_NAME = {name: it for it in QUESTIONS for name in (*map(str, it.verdicts), it.short.rstrip("?"), it.id)}
_NOT_ASKED = (
    "Each partition is judged alone: neither partitions nor consumers are compared with each other (no hot partition, no slow member)."
    " Too few consumers show as `no_permits`: they hold all that they take."
)


def pulsar_questions(text: str, of_groups: Collection[str]) -> list[DispatchQuestion]:
    """Questions that a text names, or that lead to a verdict that it names; all of them if it names only Pulsar itself.

    Args:
        text: a name, or a question in a person's words.
        of_groups: names of Kafka's questions and verdicts: these ask for a subscription only if the text says so.
    """
    says_so = bool(_PULSAR & set(said_words(text).split())) or (text in _BY_NAME and text not in of_groups)
    theirs = set(map(said_words, of_groups))
    own = [it for it in _BY_NAME if said_words(it) not in theirs]
    if not says_so and not named_in(text, own, OF_PULSAR):
        return []
    return pulsar_named(text) or list(QUESTIONS)


def pulsar_named(text: str) -> list[DispatchQuestion]:
    """Questions that a text about a subscription names, in their order."""
    named = {_BY_NAME[it].id for it in named_in(text, _BY_NAME, OF_SUBSCRIPTIONS)}
    return [it for it in QUESTIONS if it.id in named]


def pulsar_searched(text: str) -> list[DispatchQuestion]:
    """Questions that say most of its words."""
    found = said_most(text, {it.id: pulsar_text([it]) for it in QUESTIONS})
    return [it for it in QUESTIONS if it.id in found]


def pulsar_document(questions: list[DispatchQuestion]) -> dict[str, Any]:
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


def question_document(it: Any, compares: Callable[[Any], list[str]], **more: Any) -> dict[str, Any]:
    """A question of either tree in the form of `workbench.tree/1`, with its rules by what they answer."""
    said = {
        rule.id: {
            "id": rule.id,
            "because": rule.because,
            "proof": rule.proof,
            "compares": compares(rule),
            "either": getattr(rule, "either", False),
            "look": rule.look,
        }
        for rule in it.rules
    }
    kinds = {"proves": Answer.YES, "contradicts": Answer.NO, "leaves_open": Answer.CANNOT_TELL}
    rules = {kind: [said[rule.id] for rule in it.rules if rule.answer is answer] for kind, answer in kinds.items()}
    return {"id": it.id, "question": it.question, "by": it.by, **rules, "order": list(said), **more}


def pulsar_text(questions: list[DispatchQuestion]) -> str:
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


def pulsar_markdown() -> list[str]:
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


def said_of(rule: Rule | DispatchRule) -> str:
    """Its answer; a yes that only this cause makes is a proof."""
    return "proof" if rule.proof else SAID[rule.answer]


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
