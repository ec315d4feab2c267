"""The way to a verdict, read off the tree's declaration: as steps for a person, and as a picture in text."""

from __future__ import annotations

from workbench.humanize import significant
from workbench.settings import Thresholds
from workbench.triage.node import Node
from workbench.triage.tree import TREE
from workbench.triage.verdict import Verdict
from workbench.triage.walk import fold

Way = list[tuple[Node, str]]


def way_to(verdict: Verdict) -> Way | None:
    """The questions with their answers that lead to a verdict; None for one that no answer leads to (`cannot_tell`)."""

    def ask(node: Node, yes: Way | None, no: Way | None) -> Way | None:
        if yes is not None:
            return [(node, "yes"), *yes]
        return [(node, "no"), *no] if no is not None else None

    return fold(
        lambda it: [] if verdict in it.verdicts else None, lambda it: [] if verdict in it.verdicts else None, ask
    )


def diagnosis(verdict: Verdict) -> str:
    """Numbered steps in Markdown: each question on the way, the answer that leads here, and the numbers that decide it."""
    way = way_to(verdict)
    if way is None:
        return (
            "1. Read which question stopped the way, and which signals it names as missing.\n"
            "2. Ask Kafka itself meanwhile; the candidates that are left are listed beside the verdict."
        )
    return "\n".join(_step(number, node, answer) for number, (node, answer) in enumerate(way, 1))


def _step(number: int, node: Node, answer: str) -> str:
    numbers = []
    for it in node.measures:
        text = f"`{it.signal}`: {it.unit}"
        if it.threshold is not None:
            default = getattr(Thresholds(), it.threshold)
            text += f" (against `{it.threshold}`, default {significant(float(default))})"
        numbers.append(text)
    return f"{number}. `{node.id}` {node.question} **{answer}**\n   Look at {'; '.join(numbers)}."


def picture(verdict: Verdict) -> str:
    """The tree as text, with the way to the verdict marked."""
    taken = {node.id: answer for node, answer in way_to(verdict) or []}
    lines = []
    for node in TREE.values():
        leaves = [str(leaf) for leaf in node.verdicts]
        mark = ">" if node.id in taken else " "
        ends = f"  {' | '.join(leaves)}" if leaves else ""
        lines.append(f"{mark} {node.number:>2} {node.short:<24}{taken.get(node.id, ''):<5}{ends}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```"
