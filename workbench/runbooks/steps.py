"""The path to a verdict according to the decision tree: as steps for a person, and as a picture in text."""

from __future__ import annotations

from workbench.humanize import significant
from workbench.settings import Thresholds
from workbench.triage.node import Node
from workbench.triage.tree import TREE
from workbench.triage.verdict import Verdict
from workbench.triage.walk import fold

Way = list[tuple[Node, str]]


def way_to(verdict: Verdict) -> Way | None:
    """Return the questions and answers that lead to a verdict; None if no answer leads to it (`cannot_tell`)."""

    def ask(node: Node, yes: Way | None, no: Way | None) -> Way | None:
        if yes is not None:
            return [(node, "yes"), *yes]
        return [(node, "no"), *no] if no is not None else None

    return fold(
        lambda it: [] if verdict in it.verdicts else None, lambda it: [] if verdict in it.verdicts else None, ask
    )


def diagnosis(verdict: Verdict) -> str:
    """Write numbered steps in Markdown: each question on the path, its answer, and the numbers that decide it."""
    way = way_to(verdict)
    if way is None:
        return (
            "1. Read at which question the path ends, and which signals are missing.\n"
            "2. Meanwhile, use the snapshot: it reads the lag from Kafka itself. The remaining candidates are listed with the verdict."
        )
    return "\n".join(_step(number, node, answer) for number, (node, answer) in enumerate(way, 1))


def _step(number: int, node: Node, answer: str) -> str:
    numbers = []
    for it in node.measures:
        text = f"`{it.signal}`: {it.unit}"
        if it.threshold is not None:
            default = getattr(Thresholds(), it.threshold)
            of = f" × {it.times}" if it.times is not None else ""
            text += f" (threshold `{it.threshold}`, default {significant(float(default))}{of})"
        numbers.append(text)
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
