"""A Grafana dashboard made from the profiles in use: a panel for each signal that they measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.runbooks.runbook_promql import RATE_WINDOW, MeasuredQuery, by, lag, selector, time_lag
from workbench.signals import SIGNALS, Kind

SCHEMA_VERSION = 39  # of Grafana 10 and 11, which newer ones convert
_UNITS = {"seconds": "s", "messages": "short", "ratio": "percentunit"}
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Offsets are counters of the log: their rates are what people read. Lag and time lag have panels of their own above.
_ABOVE = ("consumer_lag", "time_lag")
_RATES = {"committed_offset": "Committed", "log_end_offset": "Arriving"}
_NOT_DRAWN = ("log_start_offset", "last_stable_offset", "start_time")


def dashboard(
    found: Mapping[str, MeasuredQuery], match: Mapping[str, str], *, name: str, objective_seconds: float
) -> dict[str, Any]:
    """The dashboard as Grafana imports it; data source, groups and topics are chosen on top."""
    panels = [*_first(found, match, objective_seconds), *_others(found, match)]
    for number, panel in enumerate(panels):
        row, column = divmod(number, _COLUMNS // _WIDTH)
        panel |= {
            "id": number + 1,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        }
    return {
        "uid": f"workbench-{name}"[:40],
        "title": f"Consumer lag of {name}",
        "tags": ["kafka", "workbench"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "timezone": "utc",
        "templating": {"list": _variables(found)},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _variables(found: Mapping[str, MeasuredQuery]) -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    ]
    source = found.get("consumer_lag") or found.get("committed_offset") or found.get("time_lag")
    for name in ("group", "topic"):
        if source is not None and name in source.rule.labels:
            query = f"label_values({source.rule.metric}, {source.rule.labels[name]})"
            variables.append(
                {
                    "name": name,
                    "label": name.capitalize(),
                    "type": "query",
                    "datasource": _DATASOURCE,
                    "query": {"query": query, "refId": name},
                    "refresh": 2,
                    "includeAll": True,
                    "multi": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                }
            )
    return variables


def _first(
    found: Mapping[str, MeasuredQuery], match: Mapping[str, str], objective_seconds: float
) -> list[dict[str, Any]]:
    panels = []
    if (behind := time_lag(found, match, variables=True)) is not None:
        how = "" if "time_lag" in found else " (lag ÷ rate of commits)"
        panels.append(_panel(f"How far behind{how}", behind, "{{group}} ← {{topic}}", "s", limit=objective_seconds))
    if (waiting := lag(found, match, "group", "topic", variables=True)) is not None:
        panels.append(_panel("Lag", waiting, "{{group}} ← {{topic}}", "short"))
        parts = lag(found, match, "group", "topic", "partition", variables=True) or waiting
        panels.append(_panel("Lag by partition", f"topk(20, {parts})", "{{group}} ← {{topic}} {{partition}}", "short"))
    for signal, words in _RATES.items():
        if (it := found.get(signal)) is not None:
            labels = by(it, "group", "topic")
            rate = f"sum by ({labels}) (clamp_min(deriv({selector(it, match, variables=True)}[{RATE_WINDOW}]), 0))"
            panels.append(_panel(f"{words} per second", rate, _legend(it, "group", "topic"), "short"))
    return panels


def _others(found: Mapping[str, MeasuredQuery], match: Mapping[str, str]) -> list[dict[str, Any]]:
    panels = []
    for name, it in found.items():
        if name in _ABOVE or name in _RATES or name in _NOT_DRAWN:
            continue
        signal = SIGNALS[name]
        names = [label for label in ("group", "topic", "member", "processor", "broker") if label in it.rule.labels][:3]
        labels, legend = by(it, *names), _legend(it, *names)
        words = name.replace("_", " ").capitalize()
        scale = f" * {it.rule.scale:g}" if it.rule.scale != 1 else ""
        unit = _UNITS.get(signal.unit, "short")
        whole = selector(it, match, variables=True)
        if signal.kind is Kind.COUNTER:
            panels.append(
                _panel(
                    f"{words} per second", f"sum by ({labels}) (rate({whole}[{RATE_WINDOW}])){scale}", legend, "short"
                )
            )
        elif it.rule.parts:
            panels.append(_panel(f"{words}, mean of a call", f"max by ({labels}) ({whole}){scale}", legend, unit))
        elif signal.kind is Kind.HISTOGRAM:
            sums, counts = (selector(it, match, variables=True, suffix=end) for end in ("_sum", "_count"))
            mean = f"sum by ({labels}) (rate({sums}[{RATE_WINDOW}])) / sum by ({labels}) (rate({counts}[{RATE_WINDOW}])){scale}"
            panels.append(_panel(f"{words}, mean", mean, legend, unit))
        else:
            told = f"max by ({labels}) ({whole}){scale}"
            share = f"clamp_max({told} / (1 - {told}), 1)" if it.rule.counted_twice else told
            panels.append(_panel(words, share, legend, unit))
        panels[-1]["description"] = signal.help
    return panels


def _legend(it: MeasuredQuery, *names: str) -> str:
    return " ".join(f"{{{{{it.rule.labels[name]}}}}}" for name in names if name in it.rule.labels)


def _panel(title: str, expression: str, legend: str, unit: str, *, limit: float | None = None) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    custom: dict[str, Any] = {"lineWidth": 2, "fillOpacity": 0, "showPoints": "never"}
    if limit is not None:
        steps.append({"color": "red", "value": limit})
        custom["thresholdsStyle"] = {"mode": "dashed"}
    return {
        "type": "timeseries",
        "title": title,
        "description": "",
        "datasource": _DATASOURCE,
        "targets": [{"refId": "A", "datasource": _DATASOURCE, "expr": expression, "legendFormat": legend}],
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, "custom": custom, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }
