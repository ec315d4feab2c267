"""The tree as a document: every question in order, with its rules and the numbers that these compare (docs/tree.md)."""

from __future__ import annotations

from typing import Any

from workbench.errors import UsageError
from workbench.humanize import did_you_mean
from workbench.numbers import all_numbers
from workbench.settings import Thresholds
from workbench.triage.cause import Ask, Node, Operand, Outcome, Rule
from workbench.triage.order import TREE
from workbench.triage.verdict import Answer, Verdict

SCHEMA = "workbench.tree/1"
_SAID = {Answer.YES: "yes", Answer.NO: "no", Answer.CANNOT_TELL: "cannot tell"}
_BY = {
    "gate": "an open answer ends the walk",
    "proof": "an open answer ends the walk, unless a later cause is proven",
    "elimination": "by elimination: every cause before it must be ruled out",
    "side": "a side question: an open answer ends nothing but an all-clear",
}


def _said(rule: Rule) -> str:
    return "proof" if rule.proof else _SAID[rule.answer]


def nodes_about(name: str | None) -> list[Node]:
    """The questions that lead to a verdict directly, or the one with this id; all without a name.

    Raises:
        UsageError: if there is none of this name.
    """
    if name is None:
        return list(TREE.values())
    if name in TREE:
        return [TREE[name]]
    found = [node for node in TREE.values() if name in [str(verdict) for verdict in node.verdicts]]
    if not found:
        names = [*TREE, *(str(it) for it in Verdict if it is not Verdict.CANNOT_TELL)]
        raise UsageError(
            f"No question or verdict is named {name!r}.{did_you_mean(name, names)}", hint="workbench tree lists all."
        )
    return found


def document(name: str | None = None) -> dict[str, Any]:
    """The document `workbench.tree/1`: questions with their rules, and the settings and numbers that these compare.

    Raises:
        UsageError: as `nodes_about`.
    """
    nodes = nodes_about(name)
    return {
        "schema": SCHEMA,
        "questions": [_question(node) for node in nodes],
        "numbers": [*_settings(nodes), *_numbers(nodes)],
    }


def _question(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "number": node.number,
        "question": node.question,
        "by": node.by,
        "proves": [_rule(it) for it in node.rules if it.answer is Answer.YES],
        "contradicts": [_rule(it) for it in node.rules if it.answer is Answer.NO],
        "leaves_open": [_rule(it) for it in node.rules if it.answer is Answer.CANNOT_TELL],
        "order": [it.id for it in node.rules],
        "needs": list(node.needs),
        "yes": _outcome(node.yes),
        "no": _outcome(node.no),
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "because": rule.because,
        "proof": rule.proof,
        "compares": [compared(it) for it in rule.operands],
        "look": rule.look,
    }


def compared(it: Operand) -> str:
    """What an operand compares, in words: `throttle_seconds > 0.01 s (setting throttle_seconds)`."""
    default = getattr(Thresholds(), it.setting) if it.setting is not None else it.number
    limit = f"{default:g}" if it.of is None else (it.of if default == 1 else f"{default:g} × {it.of}")
    origin = f"setting {it.setting}" if it.setting is not None else it.reason
    return f"{it.fact} {it.relation} {limit} {it.unit}" + (f" ({origin})" if origin is not None else "")


def _outcome(outcome: Outcome) -> str:
    return f"question {outcome.node}" if isinstance(outcome, Ask) else " or ".join(map(str, outcome.verdicts))


def _settings(nodes: list[Node]) -> list[dict[str, Any]]:
    used = {it.setting for node in nodes for rule in node.rules for it in rule.operands if it.setting is not None}
    used |= {it.threshold for node in nodes for it in node.measures if it.threshold is not None}
    units = {
        it.setting: it.unit for node in nodes for rule in node.rules for it in rule.operands if it.setting is not None
    }
    wanted = Thresholds.model_fields if len(nodes) == len(TREE) else sorted(used)
    return [
        {
            "name": name,
            "value": float(Thresholds.model_fields[name].default),
            "unit": "s"
            if name.endswith("_seconds")
            else units.get(name, "messages" if name.endswith("_messages") else "×"),
            "why": Thresholds.model_fields[name].description,
            "origin": "setting",
            "setting": f"thresholds.{name}",
        }
        for name in wanted
    ]


def _numbers(nodes: list[Node]) -> list[dict[str, Any]]:
    """Numbers that are no settings: all of the judgement, or those that the rules of some questions compare."""
    compared = {id(it.number) for node in nodes for rule in node.rules for it in rule.operands}
    return [
        {"name": name, "value": float(it), "unit": it.unit, "why": it.why, "origin": it.origin, "setting": None}
        for name, it in all_numbers().items()
        if len(nodes) == len(TREE) or id(it) in compared
    ]


def as_text(name: str | None = None) -> str:
    """Questions and rules for a terminal, in the order in which they are asked.

    Raises:
        UsageError: as `nodes_about`.
    """
    return "\n".join(line for node in nodes_about(name) for line in _lines(node)).rstrip()


def _lines(node: Node) -> list[str]:
    lines = [
        f"{node.number:>2}  {node.question}",
        f"    {node.id}: yes → {_outcome(node.yes)}; no → {_outcome(node.no)}",
        f"    {_BY[node.by]}",
    ]
    for rule in node.rules:
        lines.append(f"    {_said(rule):<12}{rule.because}")
        lines += [f"                {compared(it)}" for it in rule.operands]
        if rule.look is not None:
            lines.append(f"                to decide: {rule.look}")
    return [*lines, ""]


def as_markdown() -> str:
    """The page docs/tree.md."""
    lines = [
        "# The decision tree",
        "",
        "Printed from the code (`workbench tree --markdown`); a test compares. Each question is answered by the **first of its rules"
        " that holds**, and a finding shows that rule and the numbers that it compared (`because` in JSON). `workbench tree CAUSE`"
        " prints the questions that lead to one verdict, `workbench tree --json` the document `workbench.tree/1`. A *proof* is a yes"
        " that stands whatever earlier question is open, because only this cause makes what is seen.",
        "",
        "Names in code are fields of the features; `2 × x` is a multiple of another feature. A number that is a setting can be changed"
        " under `[thresholds]` in `workbench.toml`.",
    ]
    for node in TREE.values():
        lines += ["", f"## {node.number}. {node.question}", ""]
        lines.append(f"`{node.id}` · yes → {_outcome(node.yes)} · no → {_outcome(node.no)} · {_BY[node.by]}")
        lines += ["", "| answer | because | compares |", "|---|---|---|"]
        for rule in node.rules:
            look = f" To decide: {rule.look}." if rule.look is not None else ""
            compares = "<br>".join(f"`{compared(it)}`" for it in rule.operands)
            lines.append(f"| {_said(rule)} | {rule.because}.{look} | {compares} |")
    lines += ["", "## Settings", "", "| name | default | why |", "|---|---|---|"]
    lines += [
        f"| `{it['name']}` | {it['value']:g} {it['unit']} | {it['why']} |" for it in _settings(list(TREE.values()))
    ]
    lines += ["", "## Numbers that are no settings", "", "One idea has one number, wherever it is compared.", ""]
    lines += ["| name | value | why | origin |", "|---|---|---|---|"]
    lines += [
        f"| `{it['name']}` | {it['value']:g} {it['unit']} | {it['why']} | {it['origin']} |"
        for it in _numbers(list(TREE.values()))
    ]
    return "\n".join(lines) + "\n"
