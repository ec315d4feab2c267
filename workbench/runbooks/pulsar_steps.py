"""The path to a verdict about a subscription of Pulsar: as steps for a person, and as a picture in text."""

from __future__ import annotations

from workbench.triage.pulsar.dispatch_question import DispatchQuestion, DispatchRule
from workbench.triage.pulsar.pulsar_facts import FACTS
from workbench.triage.pulsar.pulsar_questions import QUESTIONS
from workbench.triage.pulsar.pulsar_reference import compared_words
from workbench.triage.verdict import Answer, AnyVerdict

Asked = tuple[DispatchQuestion, Answer]


def way_to_pulsar(verdict: AnyVerdict) -> list[Asked]:
    """The questions up to a verdict, each with the answer that leads on; the last one leads to it."""
    way: list[Asked] = []
    for question in QUESTIONS:
        if verdict in question.verdicts:
            return [*way, (question, Answer.YES if question.yes is verdict else Answer.NO)]
        way.append((question, Answer.YES if question.no is not None else Answer.NO))
    return []


def diagnosis(verdict: AnyVerdict) -> str:
    """Write numbered steps in Markdown; of the last one every reason."""
    way = way_to_pulsar(verdict)
    return "\n".join(_step(number, *it, last=number == len(way)) for number, it in enumerate(way, 1))


def picture(verdict: AnyVerdict) -> str:
    """Draw the questions as text, with those on the way to the verdict marked."""
    taken = {question.id: answer for question, answer in way_to_pulsar(verdict)}
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
    return "\n".join([head, *(f"   - {_reason(rule)}." for rule in rules)])


def _reason(rule: DispatchRule) -> str:
    return rule.because[0].upper() + rule.because[1:] + ": " + ", ".join(map(compared_words, rule.tests))
