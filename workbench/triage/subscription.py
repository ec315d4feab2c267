"""Row that triage judges: the measured features of one subscription, the facts of `triage.facts`, the answers and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from workbench.triage.facts import fact
from workbench.triage.facts.cold_reads import Cold
from workbench.triage.verdict_names import Answer, Verdict


@dataclass(frozen=True, kw_only=True)
class SubscriptionFeatures(Cold):
    """One judged subscription (`triage.tree_walk`).

    Attributes:
        answers: by the id of the question, on the path or off it; reasons: the id of the rule that decided each.
        path: ids of the questions that led to the verdict, in order; passed: those of them that are open all the same.
    """

    answers: Mapping[str, Answer]
    reasons: Mapping[str, str]
    verdict: Verdict
    path: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    def with_answers(self, **answers: Any) -> SubscriptionFeatures:
        """The same with other answers, reasons, verdict, path or passed; facts that were computed are kept."""
        found = replace(self, **answers)
        vars(found).update({**vars(self), **answers})
        return found

    def told(self, name: str) -> dict[int, float]:
        """A fact of the partitions' stories, by partition; of those that have it."""
        return {it.partition: it.story[name] for it in self.partitions if it.story and name in it.story}


# The facts with their types, in the order of their declaration.
FACTS: Mapping[str, Any] = {
    name: get_type_hints(it.func)["return"]
    for kind in reversed(SubscriptionFeatures.__mro__)
    for name, it in vars(kind).items()
    if isinstance(it, fact)
}
