"""The tree as a document: every question in order, with its rules and the numbers that these compare (docs/tree.md)."""

from __future__ import annotations

import textwrap
from typing import Any

from workbench.errors import UsageError
from workbench.humanize import did_you_mean, near
from workbench.numbers import Number, all_numbers
from workbench.signals import SIGNALS
from workbench.thresholds import Thresholds
from workbench.triage.asked import OF_GROUPS, named_in, said_words
from workbench.triage.cause import Ask, Node, Outcome, Rule
from workbench.triage.operand import Operand, Reason
from workbench.triage.order import TREE
from workbench.triage.pulsar.pulsar_reference import pulsar_markdown
from workbench.triage.rule_terms import TERMS, Term, asked_names, term_of, terms_in
from workbench.triage.verdict import Answer, Verdict
from workbench.triage.walk import ways

SCHEMA = "workbench.tree/1"
_WIDTH = 100
_SAID = {Answer.YES: "yes", Answer.NO: "no", Answer.CANNOT_TELL: "cannot tell"}
_BY = {
    "gate": "needs an answer: if there is none, the verdict is cannot_tell, whatever is proven later",
    "proof": "if it cannot be answered: cannot_tell, unless a later cause is proven",
    "elimination": "by elimination: needs an answer, as every question on the way to it does",
    "side": "a side question: if it cannot be answered, go on, but nothing is then called healthy",
}


# Causes within a verdict, with the question that names them.
_CAUSES = {cause.says: node for node in TREE.values() for cause in node.causes}
# Names of questions, of the verdicts that they lead to, and of causes within these.
ANSWERED = [*TREE, *(it.short.rstrip("?") for it in TREE.values()), *(str(it) for it in Verdict), *_CAUSES]


def _said(rule: Rule) -> str:
    return "proof" if rule.proof else _SAID[rule.answer]


def nodes_about(name: str | None) -> list[Node]:
    """The questions that lead to a verdict or a cause within it, or are called so; of a word, feature or setting those that use it.

    A name may be in a sentence: "when is a partition hot?". Questions that a sentence names come before words in it; of two, each.

    Raises:
        UsageError: if nothing has this name.
    """
    if name is None:
        return list(TREE.values())
    named = _named(name)
    found = [node for node in TREE.values() if any(_is_about(node, it) for it in named)]
    found = found or [node for node in TREE.values() if any(_uses(node, it) for it in named)]
    if not found and not any(term_of(it) for it in named):
        nearest = next((it for it in (name, *said_words(name).split()) if near(it, ANSWERED)), name)
        raise UsageError(
            f"No question, verdict or word of the tree is named {name!r}.{did_you_mean(nearest, ANSWERED)}",
            hint="Ask by a verdict (hot_partition), the number of a question (17), or a word; docs/tree.md has all.",
        )
    return found


def _named(text: str) -> list[str]:
    """What a text names, else the text; words only if it names no question."""
    found = named_in(text, [*ANSWERED, *asked_names()], OF_GROUPS) or [text]
    return [it for it in found if _is_asked(it)] or found


def _is_asked(name: str) -> bool:
    """Whether a question answers for it; else it is a word, a feature or a setting, which some use."""
    return any(_is_about(node, name) for node in TREE.values())


def _is_about(node: Node, name: str) -> bool:
    return _CAUSES.get(name) is node or name in (
        node.id,
        str(node.number),
        node.short.rstrip("?"),
        *map(str, node.verdicts),
    )


def _uses(node: Node, name: str) -> bool:
    names = {word for it in _compared(node) for word in (it.fact, it.setting, it.of)} | {
        it.threshold for it in node.measures
    }
    return name in names or term_of(name) in terms_in(_sentences(node))


def _compared(node: Node) -> list[Operand]:
    return [it for rule in _rules(node) for it in rule.operands]


def _rules(node: Node) -> list[Rule | Reason[str]]:
    return [*node.rules, *node.causes]


def document(name: str | None = None) -> dict[str, Any]:
    """The document `workbench.tree/1`: questions with their rules, and the settings and numbers that these compare.

    Raises:
        UsageError: as `nodes_about`.
    """
    nodes = nodes_about(name)
    return {
        "schema": SCHEMA,
        "questions": [_question(node) for node in nodes],
        "words": [{"name": it.name, "means": it.means} for it in _words_of(name, nodes)],
        "numbers": [*_settings(nodes), *_numbers(nodes)],
    }


def _words_of(name: str | None, nodes: list[Node]) -> list[Term]:
    """Words that these questions use, those of the name itself first."""
    if name is None:
        return list(TERMS)
    asked = _named(name)
    own = [it for word in asked if (it := term_of(word)) is not None]
    if own and not any(map(_is_asked, asked)):
        return own
    used = terms_in([text for node in nodes for text in _sentences(node)])
    return list(dict.fromkeys([*own, *used]))


def _sentences(node: Node) -> list[str]:
    return [node.question, *(rule.because for rule in _rules(node))]


def _before(name: str) -> list[str]:
    """Ways to a verdict: the answers that lead to it, from the first question on."""
    found = []
    for way, end in ways(dict.fromkeys(TREE, Answer.CANNOT_TELL)):
        if name in [str(it) for it in end.verdicts]:
            found.append(", ".join(f"{node.id} {_SAID[answer]}" for node, answer in way))
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
        "causes": [_cause(it) for it in node.causes],
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


def _cause(it: Reason[str]) -> dict[str, Any]:
    return {"id": it.id, "cause": it.says, "because": it.because, "compares": [compared(one) for one in it.operands]}


def compared(it: Operand) -> str:
    """What an operand compares, in words: `throttle_seconds > 0.01 s (setting throttle_seconds)`."""
    default = getattr(Thresholds(), it.setting) if it.setting is not None else it.number
    limit = f"{default:g}" if it.of is None else (it.of if default == 1 else f"{default:g} × {it.of}")
    origin = f"default of the setting {it.setting}" if it.setting is not None else it.reason
    if isinstance(it.number, Number) and origin is not None:
        origin = f"{it.number.origin}: {origin}"
    said = it.of is not None or it.fact.endswith(f"_{it.unit}")  # of a multiple, or as in `lag_samples`
    unit = "" if said else f" {it.unit}"
    return f"{it.fact} {it.relation} {limit}{unit}" + (f" ({origin})" if origin is not None else "")


def _outcome(outcome: Outcome) -> str:
    return f"question {outcome.node}" if isinstance(outcome, Ask) else " or ".join(map(str, outcome.verdicts))


def _settings(nodes: list[Node]) -> list[dict[str, Any]]:
    compared = [it for node in nodes for it in _compared(node) if it.setting is not None]
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
    compared = {id(it.number) for node in nodes for it in _compared(node)}
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
    nodes, named = nodes_about(name), _named(name) if name is not None else []
    words = _words_of(name, nodes)
    means = ["Words", *(line for it in words for line in (f"    {it.name}", *_wrapped(it.means))), ""] if words else []
    if named and not any(map(_is_asked, named)):
        return "\n".join([*means, *_users(named, nodes)]).rstrip()
    asked = [line for node in nodes for line in _lines(node)]
    if len(nodes) > 1 and named:
        asked = ["Asked in this order:", *(_leads(it) for it in nodes), "", *asked]
    wanted = set(named) if len(nodes) > 1 else {str(it) for node in nodes for it in node.verdicts}
    for verdict in dict.fromkeys(str(it) for node in nodes for it in node.verdicts if str(it) in wanted):
        asked += [
            f"Ways to {verdict} (a yes that leads elsewhere comes before it; a proof stands over what is open and says so):"
        ]
        asked += [line for it in _before(verdict) for line in _wrapped(it, first=4)] + [""]
    return "\n".join(asked + means).rstrip()


def _leads(node: Node) -> str:
    """What a yes does: a verdict ends the walk; what else is true is only named beside it."""
    if isinstance(node.yes, Ask):
        return f"    {node.number:>2} {node.id}: a yes leads on to {_outcome(node.yes)}, a no to {_outcome(node.no)}"
    verdicts = _outcome(node.yes)
    return f"    {node.number:>2} {node.id}: a yes is the verdict {verdicts}; what is asked later is then only named beside it"


_FEW_USERS = 2


def _users(named: list[str], nodes: list[Node]) -> list[str]:
    """The questions that use a word, as a whole if they are few; of "cannot tell", what leaves each question open."""
    if "cannot_tell" not in [it.name for word in named if (it := term_of(word)) is not None]:
        if len(nodes) <= _FEW_USERS:
            return [line for node in nodes for line in _lines(node)]
        return [f"Questions that use it: {', '.join(f'{it.number} {it.id}' for it in nodes)}"]
    lines = [
        "A finding names the question that stayed open: `workbench tree NUMBER` prints it. What leaves a question open:",
        "",
    ]
    for node in TREE.values():
        for rule in (it for it in node.rules if it.answer is Answer.CANNOT_TELL):
            look = f" To decide: {rule.look}" if rule.look is not None else ""
            lines += _wrapped(f"{node.number:>2} {node.id}: {rule.because}.{look}", first=4)
    return lines


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
    if node.needs:
        needs = "; ".join(f"{name} ({SIGNALS[name].help.rstrip('.')})" for name in node.needs)
        lines += _wrapped(f"needs: {needs}. Who exports it: docs/troubleshooting.md", first=4)
    for rule in node.rules:
        lines += _wrapped(f"{_said(rule):<12}{rule.because}", first=4)
        lines += _compares(rule)
        if rule.look is not None:
            lines += _wrapped(f"to decide: {rule.look}", first=16)
    if node.causes:
        lines.append("    Why, in the finding: the first of these that holds")
    for cause in node.causes:
        lines += [*_wrapped(f"{cause.says}: {cause.because}", first=4), *_compares(cause)]
    return [*lines, ""]


def _compares(rule: Rule | Reason[str]) -> list[str]:
    joined, last = " or" if rule.either else " and", len(rule.operands) - 1
    return [
        line
        for at, it in enumerate(rule.operands)
        for line in _wrapped(f"{compared(it)}{joined if at < last else ''}", first=16)
    ]


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
        "If a question cannot be answered, the verdict is `cannot_tell`, and later questions do not count. Exceptions: a *proof*"
        " (evidence that only one cause makes) stands over earlier questions that say so, and a side question ends nothing. A yes"
        " that is a verdict comes before what is asked later. The [words](#words) have their numbers at the end.",
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
            look = f" To decide: {rule.look.rstrip('?')}." if rule.look is not None else ""
            lines.append(f"| {_said(rule)} | {rule.because}.{look} | {_cell(rule)} |")
        if node.causes:
            lines += ["", "Why, in the finding: the first of these that holds.", ""]
            lines += ["| cause | because | compares |", "|---|---|---|"]
            lines += [f"| `{it.says}` | {it.because} | {_cell(it)} |" for it in node.causes]
    lines += pulsar_markdown()
    lines += ["", "## Words", "", "| word | means |", "|---|---|"]
    lines += [f"| {it.name} | {it.means} |" for it in _words_of(None, [])]
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


def _cell(rule: Rule | Reason[str]) -> str:
    return (" **or**<br>" if rule.either else "<br>").join(f"`{compared(it)}`" for it in rule.operands)
