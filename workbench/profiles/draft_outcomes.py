"""How attempts ended, for drafts: by the words of a label, or by counters whose names differ in that word alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from workbench.profiles.draft_labels import plain_label
from workbench.profiles.usual_metric_names import FAILED, OUTCOME, WENT_WELL, in_words
from workbench.signals import ProcessingOutcome

# Words of which nobody knows whether they are a success or a failure, if not these: in all their forms.
_OF_ATTEMPTS = {
    "retr(y|ied|ies|ying)": ProcessingOutcome.RETRY,
    "timed?_?out": ProcessingOutcome.TIMEOUT,
    "dead(_?letter(ed)?)?": ProcessingOutcome.DEAD,
    "skip(ped)?": ProcessingOutcome.SKIP,
}


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
    usual = {WENT_WELL: ProcessingOutcome.OK, FAILED: ProcessingOutcome.FAILED, **_OF_ATTEMPTS}
    # A word that is none of these stays what it is, so that triage can say that it does not know it.
    kinds = {**{f"(?i:{words})": str(kind) for words, kind in usual.items()}, "(.+)": r"\1"}
    told: dict[str, object] = {"stat_label": label, "stats": kinds}
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
