"""How attempts ended, for drafts: by the words of a label, or by counters whose names differ in that word alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from workbench.profiles.draft_labels import plain_label
from workbench.profiles.usual_metric_names import FAILED, OUTCOME, WENT_WELL, in_words
from workbench.signals import ProcessingOutcome

# What nobody calls a success or a failure, as Workbench calls it.
_OF_ATTEMPTS = [str(it) for it in ProcessingOutcome if it not in (ProcessingOutcome.OK, ProcessingOutcome.FAILED)]


def outcome_label(labels: Mapping[str, str]) -> str | None:
    """The label that tells how attempts ended."""
    return next((name for name in labels if re.fullmatch(OUTCOME, plain_label(name))), None)


def outcome_rule(metric: str, labels: Mapping[str, str], names: Iterable[str]) -> tuple[dict[str, object], list[str]]:
    """What a rule of `processed` says of outcomes, and notes for the person who checks it.

    Attempts that fail may not have been counted yet when a profile is drafted, so their usual words are in it all the same.

    Args:
        metric: that the rule reads.
        labels: of one of its series.
        names: of all metrics of the page.
    """
    label = outcome_label(labels)
    if label is None:
        failed = _failed_beside(metric, names)
        if failed is None:
            return {}, []
        return {"parts": {"ok": metric, "failed": failed}}, [f"all in place of ok, if {metric} counts failed ones too"]
    value = labels[label]
    if value in _OF_ATTEMPTS:
        return {"stat_label": label}, []
    told: dict[str, object] = {"stat_label": label}
    if re.fullmatch(f"(?i:{WENT_WELL}|{FAILED})", value):
        # A word that is none of these stays what it is, so that triage can say that it does not know it.
        told["stats"] = {f"(?i:{WENT_WELL})": "ok", f"(?i:{FAILED})": "failed", "(.+)": r"\1"}
    if value in set(ProcessingOutcome):
        return told, []
    return {**told, "quality": "proxy"}, ["its words for the outcome are its own"]


def _failed_beside(metric: str, names: Iterable[str]) -> str | None:
    """The counter whose name has a word for failures where this one has a word for success."""
    parts = re.split(rf"(?<=_)({WENT_WELL})(?=_|$)", in_words(metric))
    if len(parts) != len(("before", "word", "after")):
        return None
    before, _, after = (re.escape(it) for it in parts)
    return next((it for it in sorted(names) if re.fullmatch(f"{before}({FAILED}){after}", in_words(it))), None)
