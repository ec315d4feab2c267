"""`workbench impact` as one page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence

from workbench import __version__
from workbench.features.servers import Neighbourhood
from workbench.humanize import percent
from workbench.report.html import Packed, environment, parts_of_page
from workbench.report.impact_charts import charts_of_cause
from workbench.triage.blamed import CORRELATION, BlamedCause, Impact, moment_of, rate_of, strain_words
from workbench.triage.broker_findings import BrokerLook
from workbench.triage.finding import Action


def render_impact(
    cluster: str,
    found: Impact,
    actions: Sequence[Sequence[Action]],
    brokers: BrokerLook,
    all_of: Neighbourhood,
    *,
    incomplete: Sequence[str] = (),
) -> str:
    """The page as text.

    Args:
        cluster: its name.
        found: causes; and actions of each.
        brokers: what is wrong with them by themselves.
        all_of: lines over time, for the charts.
        incomplete: what the sources have left out.
    """
    packed, causes = Packed(), []
    for number, (cause, advised) in enumerate(zip(found.causes, actions, strict=True)):
        charts = charts_of_cause(all_of, cause)
        packed = packed.with_charts(f"cause-{number}", charts)
        causes.append((cause, advised, charts, _facts(cause)))
    parts = parts_of_page(packed)
    lacking = dict.fromkeys([*found.missing, *(it for names in brokers.unknown.values() for it in names)])
    return environment().get_template("impact.html.j2").render(
        cluster=cluster, found=found, causes=causes, findings=brokers.findings, silence=brokers.silence, incomplete=incomplete,
        start=moment_of(float(all_of.times[all_of.first])), end=moment_of(float(all_of.times[-1])),
        lacking=list(lacking), open_ones=list(brokers.unknown), moment=moment_of, rate_of=rate_of, strain_words=strain_words,
        version=__version__, start_script=parts.pop("start"), **parts,
    )  # fmt: skip


def _facts(cause: BlamedCause) -> list[str]:
    it = cause.offender
    share = f"{percent(it.share_of_rise)} of the rise in bytes on these brokers (measured by {it.measured_by})"
    return [share, cause.comparison, *map(strain_words, cause.strains), CORRELATION]
