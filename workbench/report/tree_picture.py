"""Picture of the tree: all questions in order, the path highlighted, each answer's words on hover."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from markupsafe import Markup

from workbench.triage.finding import Finding
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Ask, Node
from workbench.triage.verdict_names import Answer, Verdict

_ROW, _BOX_WIDTH, _BOX_HEIGHT, _LEFT = 36, 206, 24, 24
_LEAF_X, _CHARACTER_WIDTH = 330, 6.5


def _label(node: Node) -> str:
    return " · ".join(map(str, node.verdicts))


_LEAF_WIDTH = round(_CHARACTER_WIDTH * max(len(_label(node)) for node in TREE.values()))


def tree_svg(finding: Finding) -> Markup:
    """The picture of one finding as inline SVG; its style comes from the page. None of a finding with other questions (Pulsar)."""
    steps = {step.node: step for step in finding.path}
    if steps and not steps.keys() & TREE.keys():
        return Markup("")
    rows = {node_id: index for index, node_id in enumerate(TREE)}
    height = _ROW * len(TREE) + 8
    parts = [
        f'<svg class="tree" viewBox="0 0 {_LEAF_X + _LEAF_WIDTH + 8} {height}" role="img" '
        f'aria-label="Decision tree; verdict {escape(str(finding.verdict))}">'
    ]
    order = list(TREE)
    for node_id, node in TREE.items():
        y = 4 + rows[node_id] * _ROW
        step = steps.get(node_id)
        taken = "taken" if step is not None else "off"
        for outcome in node.outcomes:
            if isinstance(outcome, Ask):
                parts.append(_edge_to_question(node_id, outcome.node, rows, order, finding))
            else:
                parts += [_edge_to_leaf(node_id, verdict, rows, finding) for verdict in outcome.verdicts]
        words = f"{node.number}. {node.question}" + (
            f" {str(step.answer).replace('_', ' ')}: {step.words}" if step else ""
        )
        label = f"{node.number}  {node.short}"
        parts.append(
            f'<g class="node {taken}"><title>{escape(words)}</title>'
            f'<rect x="{_LEFT}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="5"/>'
            f'<text x="{_LEFT + 8}" y="{y + 16}">{escape(label)}</text>'
        )
        if step is not None:
            answer = "?" if step.answer is Answer.CANNOT_TELL else str(step.answer)
            parts.append(
                f'<text class="answer" x="{_LEFT + _BOX_WIDTH - 8}" y="{y + 16}" text-anchor="end">{answer}</text>'
            )
        parts.append("</g>")
        parts += _leaves(node, y, finding)
    return Markup("".join(parts) + "</svg>")  # noqa: S704 - every text above is escaped or our own


def _leaves(node: Node, y: int, finding: Finding) -> list[str]:
    names = [str(verdict) for verdict in node.verdicts]
    if not names:
        return []
    last = finding.path[-1].node if finding.path else ""
    lit = node.id == last and str(finding.verdict) in names
    label = str(finding.verdict) if lit else _label(node)
    state = "taken" if lit else "off"
    return [
        f'<g class="leaf {state}"><title>{escape(" or ".join(names))}</title>'
        f'<text x="{_LEAF_X}" y="{y + 16}">{escape(label)}</text></g>'
    ]


def _edge_to_leaf(source: str, verdict: Verdict, rows: dict[str, int], finding: Finding) -> str:
    taken = bool(finding.path) and finding.path[-1].node == source and finding.verdict is verdict
    middle = 4 + rows[source] * _ROW + _BOX_HEIGHT // 2
    return _line(f"M{_LEFT + _BOX_WIDTH} {middle} H{_LEAF_X - 8}", taken=taken)


def _edge_to_question(source: str, target: str, rows: dict[str, int], order: list[str], finding: Finding) -> str:
    y = 4 + rows[source] * _ROW
    path = [step.node for step in finding.path]
    taken = any(a == source and b == target for a, b in pairwise(path))
    bottom, top = y + _BOX_HEIGHT, 4 + rows[target] * _ROW
    x = _LEFT + 40
    if order.index(target) == order.index(source) + 1:
        return _line(f"M{x} {bottom} V{top}", taken=taken)
    side = _LEFT - 12  # past the questions in between
    return _line(f"M{_LEFT} {y + _BOX_HEIGHT // 2} H{side} V{top + _BOX_HEIGHT // 2} H{_LEFT}", taken=taken)


def _line(path: str, *, taken: bool) -> str:
    return f'<path class="edge {"taken" if taken else "off"}" d="{path}"/>'
