"""Why a verdict is "cannot tell", and what would decide it, from the rules of the tree (docs/troubleshooting.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.profiles import Profile, Quality, load_profile, profile_names
from workbench.profiles.profile_fit import what_to_add
from workbench.reference.markdown_tables import code, page, table
from workbench.signals import SIGNALS
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Node, Rule
from workbench.triage.verdict_names import Answer

# By rule of the first question, which no signal answers.
GATE = {
    "no_lag": "Do the profiles fit (`workbench profiles check`)? Are the group, the topic, the window and `match` right? Is the"
    " exporter up, and its clock right? For a time that has passed: `--until`.",
    "repeated": "The exporter answers from a memory that it does not renew: restart it, or read another one.",
    "to_and_fro": "Two processes that assign their partitions themselves commit for one group, or the series of two clusters or"
    " exporters differ in no label (settings: `match`, `copies`): leave one of them. Or somebody set the offsets back, and forward"
    " again: ask, and load a window after that.",
    "bad": "The exporter writes placeholders instead of offsets: its log says which broker or group it cannot read.",
}
_MOST = 6  # profiles named for one signal


def open_rules() -> Iterator[tuple[Node, Rule]]:
    """Every rule that leaves a question open, in the order of the questions."""
    for node in TREE.values():
        for rule in node.rules:
            if rule.answer is Answer.CANNOT_TELL:
                yield node, rule


def as_markdown() -> str:
    """The page docs/troubleshooting.md."""
    lines = [
        "# Cannot tell: why, and what to do",
        "",
        "Printed from the rules of [the tree](tree.md); a test compares. A finding that is not sure says why, and what is missing."
        " Look up its sentence here; `workbench tree QUESTION` prints the whole rule.",
        "",
        "1. `workbench doctor --cluster NAME` asks each source, and says what does not answer.",
        "2. `workbench profiles check --cluster NAME` lists the signals that your exporters have, and who could give the others.",
        "3. `workbench snapshot --cluster NAME --group GROUP` asks Kafka: if it shows the lag, only the metrics are missing.",
        "",
        "## No verdict at all",
        "",
        "Missing data is never called healthy: the verdict is `no_data` or `unusable_data`.",
        "",
        *table(
            ["because", "what to do"],
            [(it.because, GATE[it.id]) for it in TREE["data_usable"].rules if it.answer is not Answer.YES],
        ),
        "",
        "## The question stays open",
    ]
    for node in dict.fromkeys(node.id for node, _ in open_rules() if node.id != "data_usable"):
        rows = [(rule.because, _decides(TREE[node], rule)) for it, rule in open_rules() if it.id == node]
        lines += [
            "",
            f"### {TREE[node].question}",
            "",
            f"{code(node)}:",
            "",
            *table(["because", "what decides it"], rows),
        ]
    lines += [
        "",
        "## How to get a signal",
        "",
        "A signal that no profile in use has is missing in every finding. Add an exporter or a metric, and its profile to `profiles` in"
        " `workbench.toml` ([profiles](profiles.md)).",
        "",
        *table(
            ["signal", "what it is", "needed by", "profiles that have it"],
            _signals([load_profile(name) for name in profile_names()]),
        ),
    ]
    return page(lines)


def _decides(node: Node, rule: Rule) -> str:
    signals = ", ".join(f"[{code(name)}](#how-to-get-a-signal)" for name in node.needs)
    if rule.look is not None:
        return rule.look[0].upper() + rule.look[1:] + ("" if rule.look.endswith("?") else ".")
    return (
        f"One of {signals}."
        if len(node.needs) > 1
        else f"{signals}."
        if signals
        else "`workbench profiles check`, and a longer window."
    )


def _signals(profiles: Sequence[Profile]) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, it in SIGNALS.items():
        needed = [node.id for node in TREE.values() if name in node.needs]
        own = {quality: _named(profiles, name, quality) for quality in (Quality.EXACT, Quality.PROXY)}
        has = "; ".join(f"{quality.value}: {names}" for quality, names in own.items() if names)
        rows.append(
            (
                f"{code(name)} ({it.unit})",
                it.help,
                ", ".join(map(code, needed)),
                has or what_to_add(name, profiles)[0].upper() + what_to_add(name, profiles)[1:] + ".",
            )
        )
    return rows


def _named(profiles: Sequence[Profile], signal: str, quality: Quality) -> str:
    names = [it.name for it in profiles if it.quality(signal) is quality]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
