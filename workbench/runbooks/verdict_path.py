"""The path to a verdict according to the decision tree: as steps for a person, and as a picture in text."""

from __future__ import annotations

from workbench.humanize import significant
from workbench.thresholds import Thresholds
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Node
from workbench.triage.tree_walk import Step, ways
from workbench.triage.verdict_names import Answer, Verdict

Way = tuple[Step, ...]


def ways_to(verdict: Verdict) -> list[Way]:
    """Return all ways of questions and answers that lead to a verdict; none for `cannot_tell`.

    The documented one comes first: consumers are added when the queues are not backed up, and the network is ruled out. Else the
    shortest is first.
    """

    found = [way for way, end in ways() if verdict in end.verdicts]
    return sorted(found, key=lambda way: ((TREE["queue_backed_up"], Answer.YES) in way, len(way)))


def way_to(verdict: Verdict) -> Way | None:
    """Return the documented way to a verdict; None if no answer leads to it (`cannot_tell`)."""
    return next(iter(ways_to(verdict)), None)


def diagnosis(verdict: Verdict) -> str:
    """Write numbered steps in Markdown: each question on the path, its answer, and the numbers that decide it."""
    way = way_to(verdict)
    if way is None:
        return (
            "1. Read at which question the path ends, and which signals are missing.\n"
            "2. Meanwhile, use the snapshot: it reads the lag from Kafka itself. The remaining candidates are listed with the verdict."
        )
    lines = [_step(number, node, answer) for number, (node, answer) in enumerate(way, 1)]
    told = set(way)
    for other in ways_to(verdict)[1:]:
        differs = [f"`{node.id}` **{answer}**" for node, answer in other if (node, answer) not in told]
        lines.append(f"\nAnother way to it: {', '.join(differs)}.")
    return "\n".join(lines)


def _step(number: int, node: Node, answer: Answer) -> str:
    numbers = []
    for it in node.measures:
        text = f"`{it.signal}` ({it.unit}"
        if it.threshold is not None:
            default = getattr(Thresholds(), it.threshold)
            of = f" × {it.times}" if it.times is not None else ""
            text += f"; threshold `{it.threshold}`, default {significant(float(default))}{of}"
        numbers.append(text + ")")
    return f"{number}. `{node.id}` {node.question} **{answer}**\n   Check {'; '.join(numbers)}."


def picture(verdict: Verdict) -> str:
    """Draw the tree as text, with the path to the verdict marked."""
    taken = {node.id: answer for node, answer in way_to(verdict) or []}
    lines = []
    for node in TREE.values():
        leaves = [str(leaf) for leaf in node.verdicts]
        mark = ">" if node.id in taken else " "
        ends = f"  {' | '.join(leaves)}" if leaves else ""
        lines.append(f"{mark} {node.number:>2} {node.short:<24}{taken.get(node.id, ''):<5}{ends}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```"
