"""The notebook `impact`: asks about what its parameters, the page's address or the environment name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.widgets.prefill import prefill

if TYPE_CHECKING:
    from workbench.api.who_slows_whom import ImpactResult


def impact(**given: str) -> ImpactResult:
    """Find out who slows whom on a cluster or in a capture.

    Args:
        given: `cluster`, `capture`, `since`, `until`, `baseline` and `observe` as `api.impact` takes them, "" for none; `otherwise`: a
            capture that is read if nothing else is named.

    Raises:
        WorkbenchError: as `api.impact`.
    """
    from workbench import api

    otherwise, baseline, observe = (given.pop(name, "") or None for name in ("otherwise", "baseline", "observe"))
    it = prefill(given)
    return api.impact(
        cluster=it.cluster or None,
        capture=it.capture or (None if it.cluster else otherwise),
        since=it.since or None,
        until=it.until or None,
        baseline=baseline,
        observe=observe,
    )


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A title, a figure or a table, for `display`."""

    data: Mapping[str, Any]

    def _repr_mimebundle_(self, **_options: Any) -> Mapping[str, Any]:
        return self.data


def charts(found: ImpactResult) -> Sequence[ShownPart]:
    """Of each cause: what the offender moves, who waits since then, who is on which broker; or a sentence that there are none."""
    from workbench.report.who_slows_whom_charts import charts_of_cause
    from workbench.widgets.controls import outputs

    drawn = [chart for cause in found.found.causes for chart in charts_of_cause(found.seen, cause)]
    if not drawn:
        none = "Nobody is accused, so there is no chart."
        return [ShownPart({"text/html": f'<div class="wb"><p>{none}</p></div>', "text/plain": none})]
    return [ShownPart(it["data"]) for it in outputs(drawn)]
