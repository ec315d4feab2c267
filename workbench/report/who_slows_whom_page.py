"""`workbench impact` as one page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from workbench import __version__
from workbench.features.broker_features import Neighbourhood
from workbench.humanize import one_line
from workbench.report.finding_fragment import style
from workbench.report.html_report import Packed, environment, parts_of_page
from workbench.report.who_slows_whom_charts import charts_of_cause
from workbench.triage.broker_findings import BrokerLook
from workbench.triage.finding import Action
from workbench.triage.who_holds_up_whom import CORRELATION, Impact, moment_of, rate_of, strain_words


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
        causes.append((cause, advised, charts))
    parts = parts_of_page(packed)
    return environment().get_template("impact.html.j2").render(
        cluster=cluster, found=found, causes=causes, brokers=brokers, incomplete=incomplete, lacking=_lacking(found, brokers),
        start=moment_of(float(all_of.times[all_of.first])), end=moment_of(float(all_of.times[-1])), parts=_parts(),
        version=__version__, start_script=parts.pop("start"), **parts,
    )  # fmt: skip


def answer_fragment(found: Impact, actions: Sequence[Sequence[Action]], *, incomplete: Sequence[str] = ()) -> str:
    """For a notebook: the answer, and of each cause what speaks for it, what to do, and who waits. All text is escaped."""
    parts = _parts()
    notes = Markup().join(Markup('<p class="note">Incomplete: {}</p>').format(one_line(text)) for text in incomplete)
    # Of one, its own headline says the same.
    said = (
        Markup('<p class="sentence">{}</p>').format(one_line(found.sentence)) if len(found.causes) != 1 else Markup("")
    )
    causes = Markup().join(
        Markup('<section class="finding more">{}{}</section>').format(
            parts.accused(cause, advised), parts.victims(cause)
        )
        for cause, advised in zip(found.causes, actions, strict=True)
    )
    return _in_notebook(said + notes + causes)


def others_fragment(found: Impact, brokers: BrokerLook) -> str:
    """For a notebook: brokers in trouble by themselves, who is not accused and why, and what is not measured. All text is escaped."""
    body = _parts().others(found, brokers, _lacking(found, brokers)).strip()
    return _in_notebook(body or Markup("<p>Nothing else is wrong with the brokers.</p>"))


def _in_notebook(body: Markup) -> str:
    return f'<style>{style()}</style><div class="wb">{body}</div>'


def _parts() -> Any:
    """The macros of the page's parts."""
    words = {"correlation": CORRELATION, "moment": moment_of, "rate_of": rate_of, "strain_words": strain_words}
    return environment().get_template("impact_parts.html.j2").make_module(words)


def _lacking(found: Impact, brokers: BrokerLook) -> list[str]:
    """Signals that are missing, each once."""
    return list(dict.fromkeys([*found.missing, *(it for names in brokers.unknown.values() for it in names)]))
