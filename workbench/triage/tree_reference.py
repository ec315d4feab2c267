"""The tree as a document: every question in order, with its rules and the numbers that these compare (docs/tree.md)."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from types import ModuleType
from typing import Any

from workbench.errors import UsageError
from workbench.humanize import did_you_mean, near
from workbench.judgement_numbers import Number, all_numbers
from workbench.signals import SIGNALS
from workbench.thresholds import Thresholds
from workbench.triage.meaning_of_rule_words import ORIGINS, TERMS, Term, asked_names, term_of, terms_in
from workbench.triage.operand import Operand, Reason
from workbench.triage.question_order import PARTS, TREE
from workbench.triage.question_trees_by_queue import OWN_TREES
from workbench.triage.question_types import Ask, Node, Outcome, Rule
from workbench.triage.search_tree_by_words import OF_GROUPS, named_in, said_most, said_words
from workbench.triage.tree_document_parts import SAID, question_document, said_of
from workbench.triage.tree_walk import ways
from workbench.triage.verdict_names import Answer

SCHEMA = "workbench.tree/1"
_WIDTH = 100
_BY = {
    "gate": "needs an answer: if there is none, the verdict is cannot_tell, whatever is proven later",
    "proof": "if it cannot be answered: cannot_tell, unless a later cause is proven",
    "elimination": "by elimination: needs an answer, as every question on the way to it does",
    "side": "a side question: if it cannot be answered, go on, but nothing is then called healthy",
}


# The questions that answer for a name or number: their own ones, verdicts, and causes within these.
_ABOUT: dict[str, list[Node]] = {}
for _node in TREE.values():
    _names = [_node.id, str(_node.number), _node.short.rstrip("?"), *map(str, _node.verdicts)]
    for _name in [*_names, *(it.says for it in _node.causes)]:
        _ABOUT.setdefault(_name, []).append(_node)
ANSWERED = sorted(it for it in _ABOUT if not it.isdigit())


def of_own_tree(text: str) -> tuple[ModuleType, list[Any]] | None:
    """The tree of another queue that a text asks for, and its questions: by its own words, or by those that this tree does not have."""
    asked = [(it, found) for it in OWN_TREES if (found := it.asked_for(text, ANSWERED))]
    if not asked and not _found(text):
        asked = [(it, found) for it in OWN_TREES if (found := it.searched(text))]
    return next(iter(asked), None)


def nodes_about(name: str | None) -> list[Node]:
    """The questions that lead to a verdict or a cause within it, or are called so; of a word, feature or setting those that use it.

    A name may be in a sentence: "when is a partition hot?". Questions that a sentence names come before words in it; of two, each.

    Raises:
        UsageError: if nothing has this name.
    """
    if name is None:
        return list(TREE.values())
    named = _named(name)
    found = [node for node in TREE.values() if any(node in _ABOUT.get(it, ()) for it in named)]
    found = found or [node for node in TREE.values() if any(_uses(node, it) for it in named)]
    if not found and not _found(name):
        nearest = next((it for it in (name, *said_words(name).split()) if near(it, ANSWERED)), name)
        raise UsageError(
            f"No question, verdict or word of the tree is named {name!r}.{did_you_mean(nearest, ANSWERED)}",
            hint="Ask by a verdict (hot_partition), the number of a question (17), or a word; docs/tree.md has all.",
        )
    return found


def _named(text: str) -> list[str]:
    """What a text names, else the text; words, features and settings, which some use, only if no question answers for it."""
    found = _found(text) or [text]
    return [it for it in found if it in _ABOUT] or found


def _found(text: str) -> list[str]:
    """What a text names: a question's number, constants as they are written, names and words; else what says most of its words."""
    numbers = [it for it in re.findall(r"(?:^|question )(\d+)\b", text) if it in _ABOUT]
    constants = [it for it in re.findall("[A-Z_]{3,}", text) if it in all_numbers()]
    whys = {it["name"]: str(it["why"]) for it in _numbers(list(TREE.values()))}
    names = re.findall("[a-z]+(?:_[a-z]+)+", " ".join([*whys, *_texts(), *_texts().values()]))
    found = [*numbers, *constants] or named_in(text, [*ANSWERED, *asked_names(), *names], OF_GROUPS)
    return found or said_most(text, _texts()) or said_most(text, whys)


@cache
def _texts() -> dict[str, str]:
    """What the page says of each question and word."""
    texts = {it.id: " ".join([*_lines(it), *(one["name"] for one in _numbers([it]))]) for it in TREE.values()}
    return texts | {it.name: " ".join([it.name, *it.also, it.means]) for it in TERMS}


def _says(text: str, name: str) -> bool:
    """Whether a text has a name as one writes only names."""
    return ("_" in name or name.isupper()) and re.search(rf"\b{re.escape(name)}\b", _texts()[text]) is not None


def _uses(node: Node, name: str) -> bool:
    term = term_of(name)
    return _says(node.id, name) if term is None else term in terms_in(_sentences(node))


def _rules(node: Node) -> list[Rule | Reason[str]]:
    return [*node.rules, *node.causes]


def document(name: str | None = None) -> dict[str, Any]:
    """The document `workbench.tree/1`: questions with their rules, and the settings and numbers that these compare.

    Raises:
        UsageError: as `nodes_about`.
    """
    nodes = nodes_about(name)
    own = _numbers_of(_named(name)) if name is not None else []
    return {
        "schema": SCHEMA,
        "questions": [_question(node) for node in nodes],
        "words": [{"name": it.name, "means": it.means} for it in _words_of(name, nodes)],
        "numbers": list({it["name"]: it for it in [*_numbers(nodes), *own]}.values()),
    }


def _words_of(name: str | None, nodes: list[Node]) -> list[Term]:
    """Words that these questions use, those of the name itself first."""
    if name is None:
        return list(TERMS)
    asked = _found(name) or [name]
    own = list(dict.fromkeys(it for word in asked if (it := term_of(word)) is not None))
    said = [it for it in TERMS if any(_says(it.name, word) for word in asked)]
    if not any(it in _ABOUT for it in asked) and (own or said or _numbers_of(asked)):
        return own or said
    used = terms_in([text for node in nodes for text in _sentences(node)])
    return list(dict.fromkeys([*own, *used]))


def _sentences(node: Node) -> list[str]:
    return [node.question, *(rule.because for rule in _rules(node))]


def _before(name: str) -> list[str]:
    """Ways to a verdict: the answers that lead to it, from the first question on."""
    every = ways(dict.fromkeys(TREE, Answer.CANNOT_TELL))
    found = (way for way, end in every if name in map(str, end.verdicts))
    return [", ".join(f"{node.id} {SAID[answer]}" for node, answer in way) for way in found]


def _question(node: Node) -> dict[str, Any]:
    return question_document(
        node,
        lambda rule: [compared(it) for it in rule.operands],
        number=node.number,
        needs=list(node.needs),
        causes=[
            {"id": it.id, "cause": it.says, "because": it.because, "compares": [compared(one) for one in it.operands]}
            for it in node.causes
        ],
        yes=_outcome(node.yes, when=False),
        no=_outcome(node.no, when=False),
    )


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


def _outcome(outcome: Outcome, *, when: bool = True) -> str:
    if isinstance(outcome, Ask):
        return f"question {outcome.node}"
    if not when or not outcome.unless:
        return " or ".join(map(str, outcome.verdicts))
    return "".join(f"{verdict} if {words}, else " for _, verdict, words in outcome.unless) + str(outcome.verdict)


def _numbers(nodes: list[Node]) -> list[dict[str, Any]]:
    """Settings and constants that the rules of some questions compare; of all questions, all of the judgement."""
    operands, every = [it for node in nodes for rule in _rules(node) for it in rule.operands], len(nodes) == len(TREE)
    units = {it.setting: "×" if it.of is not None else it.unit for it in operands}
    used = {*units, *(it.threshold for node in nodes for it in node.measures)}
    found: list[tuple[str, float, str, str | None, str, str | None]] = []
    for name, field in Thresholds.model_fields.items():
        unit = "s" if name.endswith("_seconds") else "messages" if name.endswith("_messages") else units.get(name, "×")
        if every or name in used:
            found.append((name, float(field.default), unit, field.description, "setting", f"thresholds.{name}"))
    compared = {id(it.number) for it in operands}
    for name, it in all_numbers().items():
        if every or id(it) in compared:
            found.append((name, float(it), it.unit, it.why, it.origin, None))
    return [dict(zip(("name", "value", "unit", "why", "origin", "setting"), it, strict=True)) for it in found]


def _numbers_of(names: list[str]) -> list[dict[str, Any]]:
    return [it for it in _numbers(list(TREE.values())) if it["name"] in names]


def as_text(name: str | None = None) -> str:
    """Questions and rules for a terminal, in the order in which they are asked.

    Raises:
        UsageError: as `nodes_about`.
    """
    nodes, named = nodes_about(name), _named(name) if name is not None else []
    means = _section("Words", [f"{it.name}\n{it.means}" for it in _words_of(name, nodes)])
    if named and not any(it in _ABOUT for it in named):
        page = [*_section("Numbers", _told(named)), *means, *_users(named, nodes), ""]
    else:
        page = [] if named else [*_index(), ""]
        page += ["Asked in this order:", *map(_leads, nodes), ""] if named and len(nodes) > 1 else []
        page += [line for node in nodes for line in _lines(node)]
        for it in dict.fromkeys(named if len(nodes) > 1 else [*map(str, nodes[0].verdicts), *named]):
            title = f"Ways to {it} (a yes that leads elsewhere comes before it; a proof overrides what is open, and says so):"
            page += _section(title, _before(it))
            page += _section(f"Contradicted by (of {it}):", _against(it))
        page += means
    said = "\n".join(page)
    settings = [it for it in Thresholds.model_fields if re.search(rf"setting {it}\b|`{it}`", said) and it not in named]
    page += _section("Settings ([thresholds] of workbench.toml)", _told(settings))
    page += _wrapped(ORIGINS, first=0) if re.search(r"\((measured|chosen|kafka)\b", said) else []
    page += [line for it in OWN_TREES if (line := it.beside(name or ""))]
    return "\n".join(page).rstrip()


def _section(title: str, entries: list[str]) -> list[str]:
    """A title and its entries: of one with several lines, the first one is a name."""
    parts = [(part, 8 if at else 4) for it in entries for at, part in enumerate(it.split("\n"))]
    return [title, *(line for part, first in parts for line in _wrapped(part, first=first)), ""] if entries else []


def _told(names: list[str]) -> list[str]:
    """Settings and constants of these names, with their reasons."""
    return [f"{it['name']} = {it['value']:g} {it['unit']} ({it['origin']})\n{it['why']}" for it in _numbers_of(names)]


def _index() -> list[str]:
    """The questions alone."""
    parts = {
        part: [f"{TREE[it.id].number:>2}  {it.id:<16}{it.question}" for it in nodes] for part, nodes in PARTS.items()
    }
    return [line for part, nodes in parts.items() for line in _section(part, nodes)[:-1]]


def _against(name: str) -> list[str]:
    """Rules that say no to a verdict, or to the question that names a cause, and causes that are named before it."""
    found = []
    for node in TREE.values():
        causes = [it.says for it in node.causes]
        of_yes, of_no = name in (*node.yes.verdicts, *causes), name in node.no.verdicts
        answer = Answer.NO if of_yes else Answer.YES if of_no else None
        found += [f"{node.number:>2} {node.id}: {it.because}" for it in node.rules if it.answer is answer]
        before = [it for at, it in enumerate(node.causes) if name in causes[at:] and it.says != name]
        found += [f"{it.says} is named instead: {it.because}" for it in before]
    return found


def _leads(node: Node) -> str:
    """What a yes does: a verdict ends the walk; what else is true is only named beside it."""
    if isinstance(node.yes, Ask):
        return f"    {node.number:>2} {node.id}: a yes leads on to {_outcome(node.yes)}, a no to {_outcome(node.no)}"
    verdicts = _outcome(node.yes)
    return f"    {node.number:>2} {node.id}: a yes is the verdict {verdicts}; what is asked later is then only named beside it"


def _users(named: list[str], nodes: list[Node]) -> list[str]:
    """The questions that use a word, as a whole if they are few; of "cannot tell", what leaves each question open."""
    terms = [it.name for word in named if (it := term_of(word)) is not None]
    if "order" in terms:
        return _index()
    if "cannot_tell" not in terms:
        if len(nodes) <= 2:
            return [line for node in nodes for line in _lines(node)]
        return [f"Questions that use it: {', '.join(f'{it.number} {it.id}' for it in nodes)}"]
    title = (
        "A finding names the question that stayed open: `workbench tree NUMBER` prints it. What leaves a question open:"
    )
    opens = [(node, it) for node in TREE.values() for it in node.rules if it.answer is Answer.CANNOT_TELL]
    reasons = [(f"{node.number:>2} {node.id}: {it.because}.", it.look) for node, it in opens]
    return _section(title, [reason + (f" To decide: {look}" if look is not None else "") for reason, look in reasons])


def _wrapped(text: str, *, first: int = 8) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * first, subsequent_indent=" " * (16 if first == 4 else first)
    )


def _lines(node: Node) -> list[str]:
    lines = [
        f"{node.number:>2}  {node.question}",
        *_wrapped(f"{node.id}: yes → {_outcome(node.yes)}; no → {_outcome(node.no)}", first=4),
        f"    {_BY[node.by]}",
    ]
    if node.needs:
        needs = "; ".join(f"{name} ({SIGNALS[name].help.rstrip('.')})" for name in node.needs)
        lines += _wrapped(f"needs: {needs}. Who exports it: docs/troubleshooting.md", first=4)
    for rule in node.rules:
        lines += _wrapped(f"{said_of(rule):<12}{rule.because}", first=4)
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
        " that holds**, and a finding shows that rule and those of its comparisons that hold (`because` in JSON): all, unless the rule"
        " says *or*, or can hold in another way, too. `workbench tree NAME` prints one verdict, question or word: its rules, the ways"
        " to it, and what the words mean; `workbench tree --json` the document `workbench.tree/1`. What would be judged otherwise"
        " without each rule was [measured](decisions/2026-11-29-ablation.md).",
        "",
        "If a question cannot be answered, the verdict is `cannot_tell`, and later questions do not count. Exceptions: a *proof*"
        " (evidence that only one cause makes) overrides earlier open questions, which it names, and a side question ends nothing."
        " A yes that is a verdict comes before what is asked later. The [words](#words) have their numbers at the end.",
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
            lines.append(f"| {said_of(rule)} | {rule.because}.{look} | {_cell(rule)} |")
        if node.causes:
            lines += ["", "Why, in the finding: the first of these that holds.", ""]
            lines += ["| cause | because | compares |", "|---|---|---|"]
            lines += [f"| `{it.says}` | {it.because} | {_cell(it)} |" for it in node.causes]
    lines += [line for it in OWN_TREES for line in it.as_markdown()]
    lines += ["", "## Words", "", "| word | means |", "|---|---|"]
    lines += [f"| {it.name} | {it.means} |" for it in _words_of(None, [])]
    row = "| `{name}` | {value:g} {unit} | {why} |"
    rows = [(it["origin"], row.format(**it)) for it in _numbers(list(TREE.values()))]
    lines += ["", "## Settings", "", ORIGINS, "", "| name | default | why |", "|---|---|---|"]
    lines += [row for origin, row in rows if origin == "setting"]
    lines += ["", "## Numbers that are no settings", "", "One idea has one number, wherever it is compared.", ""]
    lines += ["| name | value | why | origin |", "|---|---|---|---|"]
    lines += [f"{row} {origin} |" for origin, row in rows if origin != "setting"]
    return "\n".join(lines) + "\n"


def _cell(rule: Rule | Reason[str]) -> str:
    return (" **or**<br>" if rule.either else "<br>").join(f"`{compared(it)}`" for it in rule.operands)
