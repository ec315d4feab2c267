"""The tree as a document: every question in order, with its rules and the numbers that these compare (docs/tree.md)."""

from __future__ import annotations

import textwrap
from typing import Any

from workbench.errors import UsageError
from workbench.humanize import did_you_mean
from workbench.numbers import all_numbers
from workbench.thresholds import Thresholds
from workbench.triage.cause import Ask, Node, Operand, Outcome, Rule
from workbench.triage.order import TREE
from workbench.triage.pulsar.pulsar_reference import pulsar_markdown
from workbench.triage.rule_terms import CAUSES_WITHIN, TERMS, Term, named_in, term_of, terms_in
from workbench.triage.verdict import Answer, Verdict
from workbench.triage.walk import ways

SCHEMA = "workbench.tree/1"
_WIDTH = 100
_SAID = {Answer.YES: "yes", Answer.NO: "no", Answer.CANNOT_TELL: "cannot tell"}
_BY = {
    "gate": "if it cannot be answered: cannot_tell",
    "proof": "if it cannot be answered: cannot_tell, unless a later cause is proven",
    "elimination": "by elimination: every cause before it must be ruled out",
    "side": "a side question: if it cannot be answered, go on, but nothing is then called healthy",
}


def _said(rule: Rule) -> str:
    return "proof" if rule.proof else _SAID[rule.answer]


def _names() -> list[str]:
    words = [word for it in TERMS for word in (it.name, *it.also)]
    return [
        *TREE,
        *(it.short.rstrip("?") for it in TREE.values()),
        *(str(it) for it in Verdict),
        *CAUSES_WITHIN,
        *words,
    ]


def nodes_about(name: str | None) -> tuple[list[Node], str | None]:
    """The questions that lead to a verdict or a cause within one, or are called so; of a word those that use it; all without a name.

    And the name itself, as the tree has it.

    A name may be in a sentence: "when is a partition hot?".

    Raises:
        UsageError: if nothing has this name.
    """
    if name is None:
        return list(TREE.values()), None
    name = named_in(name, _names())
    wanted = CAUSES_WITHIN.get(name, name)
    found = [
        node
        for node in TREE.values()
        if wanted in (node.id, node.short.rstrip("?"), *(str(verdict) for verdict in node.verdicts))
    ]
    own = term_of(name)
    if not found and own is not None:
        return [node for node in TREE.values() if own in terms_in(_sentences(node))], name
    if not found:
        raise UsageError(
            f"No question, verdict or word of the tree is named {name!r}.{did_you_mean(name, _names())}",
            hint="workbench tree lists all.",
        )
    return found, name


def document(name: str | None = None) -> dict[str, Any]:
    """The document `workbench.tree/1`: questions with their rules, and the settings and numbers that these compare.

    Raises:
        UsageError: as `nodes_about`.
    """
    nodes, name = nodes_about(name)
    return {
        "schema": SCHEMA,
        "questions": [_question(node) for node in nodes],
        "words": [{"name": it.name, "means": it.means} for it in _words_of(name, nodes)],
        "numbers": [*_settings(nodes), *_numbers(nodes)],
    }


def _words_of(name: str | None, nodes: list[Node]) -> list[Term]:
    """Words that these questions use, that of the name itself first."""
    if name is None:
        return list(TERMS)
    own = term_of(name)
    used = terms_in([text for node in nodes for text in _sentences(node)])
    return [*([own] if own is not None else []), *(it for it in used if it is not own)]


def _sentences(node: Node) -> list[str]:
    return [node.question, *(rule.because for rule in node.rules)]


def _before(name: str) -> list[str]:
    """Ways to a verdict: the answers that lead to it, from the first question on."""
    found = []
    for way, end in ways(dict.fromkeys(TREE, Answer.CANNOT_TELL)):
        if name in [str(it) for it in end.verdicts]:
            found.append(", ".join(f"{node.number} {_SAID[answer]}" for node, answer in way))
    return found


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
        "either": rule.either,
        "look": rule.look,
    }


def compared(it: Operand) -> str:
    """What an operand compares, in words: `throttle_seconds > 0.01 s (setting throttle_seconds)`."""
    default = getattr(Thresholds(), it.setting) if it.setting is not None else it.number
    limit = f"{default:g}" if it.of is None else (it.of if default == 1 else f"{default:g} × {it.of}")
    origin = f"setting {it.setting}" if it.setting is not None else it.reason
    unit = "" if it.of is not None and it.unit.startswith("×") else f" {it.unit}"
    return f"{it.fact} {it.relation} {limit}{unit}" + (f" ({origin})" if origin is not None else "")


def _outcome(outcome: Outcome) -> str:
    return f"question {outcome.node}" if isinstance(outcome, Ask) else " or ".join(map(str, outcome.verdicts))


def _settings(nodes: list[Node]) -> list[dict[str, Any]]:
    compared = [it for node in nodes for rule in node.rules for it in rule.operands if it.setting is not None]
    units = {str(it.setting): "×" if it.of is not None else it.unit for it in compared}
    used = {*units, *(it.threshold for node in nodes for it in node.measures if it.threshold is not None)}
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
    nodes, name = nodes_about(name)
    lines = [line for node in nodes for line in _lines(node)]
    if name is not None and (before := _before(name)):
        lines += ["Ways to it, by the numbers of the questions (a proof needs none of those before it):"]
        lines += [f"    {it}" for it in before] + [""]
    if words := _words_of(name, nodes):
        lines += ["Words", *(line for it in words for line in (f"    {it.name}", *_wrapped(it.means))), ""]
    return "\n".join(lines).rstrip()


def _wrapped(text: str, *, first: int = 8) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * first, subsequent_indent=" " * (16 if first == 4 else first)
    )


def _lines(node: Node) -> list[str]:
    lines = [
        f"{node.number:>2}  {node.question}",
        f"    {node.id}: yes → {_outcome(node.yes)}; no → {_outcome(node.no)}",
        f"    {_BY[node.by]}",
    ]
    for rule in node.rules:
        lines += _wrapped(f"{_said(rule):<12}{rule.because}", first=4)
        joined = " or" if rule.either else " and"
        last = len(rule.operands) - 1
        lines += [f"                {compared(it)}{joined if at < last else ''}" for at, it in enumerate(rule.operands)]
        if rule.look is not None:
            lines.append(f"                to decide: {rule.look}")
    return [*lines, ""]


def as_markdown() -> str:
    """The page docs/tree.md."""
    lines = [
        "# The decision tree",
        "",
        "Printed from the code (`workbench tree --markdown`); a test compares. Each question is answered by the **first of its rules"
        " that holds**, and a finding shows that rule and the numbers that it compared (`because` in JSON). All comparisons of a rule"
        " hold, unless it says *or*. `workbench tree NAME` prints one verdict, question or word: its rules, the ways to it, and"
        " what the words mean; `workbench tree --json` the document `workbench.tree/1`.",
        "",
        "If a question cannot be answered, the verdict is `cannot_tell`, and later questions do not count. Exception: a *proof*"
        " (evidence that only one cause makes) stands all the same. The [words](#words) have their numbers at the end.",
        "",
        "Names in code are fields of the features; `2 × x` is a multiple of another feature. A number that is a setting can be changed"
        " under `[thresholds]` in `workbench.toml`, for every group; what is expected of one group (`time_lag_objective`,"
        " `commit_every`, `batch`) stands under [its name](clusters.md).",
    ]
    for node in TREE.values():
        lines += ["", f"## {node.number}. {node.question}", ""]
        lines.append(f"`{node.id}` · yes → {_outcome(node.yes)} · no → {_outcome(node.no)} · {_BY[node.by]}")
        lines += ["", "| answer | because | compares |", "|---|---|---|"]
        for rule in node.rules:
            look = f" To decide: {rule.look}." if rule.look is not None else ""
            compares = (" **or**<br>" if rule.either else "<br>").join(f"`{compared(it)}`" for it in rule.operands)
            lines.append(f"| {_said(rule)} | {rule.because}.{look} | {compares} |")
    lines += pulsar_markdown()
    lines += ["", "## Words", "", "| word | means |", "|---|---|"]
    lines += [f"| {it.name} | {it.means} |" for it in TERMS]
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
