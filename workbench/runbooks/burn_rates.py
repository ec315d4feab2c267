"""Alert rules with multi-window burn rates: the time over the time-lag objective, against an error budget.

The windows and factors are those of Google's SRE workbook, chapter 5, "Multiwindow, Multi-Burn-Rate Alerts".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.humanize import shell_word
from workbench.runbooks.objective_recording_rules import LATE, OBJECTIVE, recordings, rule_file
from workbench.runbooks.runbook_promql import MeasuredQuery, lag
from workbench.settings_of_groups import NOTHING_EXPECTED, Expectations

# The objective of the alert's group, where Prometheus has it.
_ITS_OBJECTIVE = (
    f"{{{{ with printf `{OBJECTIVE}{{group=%q,topic=%q}}` $labels.group $labels.topic | query }}}}"
    " of {{ . | first | value | humanizeDuration }}{{ end }}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """One alert: the budget burns at `factor` over both windows; the short one ends the alert soon after the trouble."""

    long: str
    short: str
    factor: float
    severity: str
    words: str


# Shares of a 30-day budget: 2 % in an hour and 5 % in six hours wake somebody, 10 % in three days makes a ticket.
BURNS = (
    Burn(long="1h", short="5m", factor=14.4, severity="page", words="2 % of the month's budget in an hour"),
    Burn(long="6h", short="30m", factor=6.0, severity="page", words="5 % of the month's budget in six hours"),
    Burn(long="3d", short="6h", factor=1.0, severity="ticket", words="10 % of the month's budget in three days"),
)


def burn_rules(
    found: Mapping[str, MeasuredQuery],
    match: Mapping[str, str],
    *,
    objective_seconds: float,
    availability: float,
    runbook_base: str,
    commit_every_seconds: float = 0.0,
    expectations: Expectations = NOTHING_EXPECTED,
    cluster: str | None = None,
) -> str:
    """The file of rules: recordings first, then an alert for each pair of windows.

    Args:
        found: the signals that are measured.
        match: label matchers of the cluster.
        objective_seconds, commit_every_seconds: older than their sum is late, in groups without settings of their own.
        expectations: settings of groups.
        availability: share of the time that must not be late, such as 0.999.
        runbook_base: address of the folder of runbooks.
        cluster: name in the settings, for the command in the alert.
    """
    rules = recordings(
        found,
        match,
        objective_seconds=objective_seconds,
        commit_every_seconds=commit_every_seconds,
        expectations=expectations,
    )
    if rules:
        for window in dict.fromkeys(length for burn in BURNS for length in (burn.short, burn.long)):
            rules.append({"record": f"workbench:late:ratio_{window}", "expr": f"avg_over_time({LATE}[{window}])"})
        rules += [_alert(burn, 1 - availability, runbook_base, cluster or "CLUSTER") for burn in BURNS]
    if (waiting := lag(found, match, "group", "topic")) is not None:
        rules.append(_growing(waiting, runbook_base))
    return rule_file("workbench-burn-rates", rules, command="`workbench export grafana`")


def _alert(burn: Burn, budget: float, base: str, cluster: str) -> dict[str, Any]:
    limit = f"{burn.factor * budget:.6g}"
    late = "{{ $labels.group }} is late on {{ $labels.topic }}"
    return {
        "alert": f"ConsumerLagBudgetBurn{burn.long}",
        "expr": f"workbench:late:ratio_{burn.long} > {limit} and workbench:late:ratio_{burn.short} > {limit}",
        "labels": {"severity": burn.severity},
        "annotations": {
            "summary": f"{late}: {burn.words}",
            "description": f"It was over its objective{_ITS_OBJECTIVE} for {{{{ $value | humanizePercentage }}}} of {burn.long}. "
            f"Find out why: workbench triage --cluster {_as_text(shell_word(cluster))} "
            "--group {{ $labels.group }} --topic {{ $labels.topic }}",
            "runbook_url": f"{base.rstrip('/')}/ConsumerLag.md",
        },
    }


def _as_text(name: str) -> str:
    """A name within an annotation, which is a template of Go."""
    return name.replace("{{", '{{ "{{" }}')


def _growing(waiting: str, base: str) -> dict[str, Any]:
    return {
        "alert": "ConsumerLagGrowsForAnHour",
        "expr": f"deriv(({waiting})[1h:1m]) > 0 and min_over_time(({waiting})[1h:1m]) > 1000",
        "for": "15m",
        "labels": {"severity": "ticket"},
        "annotations": {
            "summary": "The lag of {{ $labels.group }} on {{ $labels.topic }} has grown for an hour",
            "description": "It never was below 1,000 messages in that time.",
            "runbook_url": f"{base.rstrip('/')}/ConsumerLagGrowing.md",
        },
    }
