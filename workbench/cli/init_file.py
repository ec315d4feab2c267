"""Text of a new `workbench.toml`, with a comment for everything that can be set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def settings_text(
    *,
    name: str,
    bootstrap: str | None,
    prometheus: str | None,
    metrics: Sequence[str],
    properties: Mapping[str, str],
    profiles: Sequence[str],
) -> str:
    """The file; what is not there yet stands as a comment, with an example."""
    key = _key(name)
    lines = [
        "# Settings of Workbench. Check them with: workbench doctor",
        "# ${NAME} is an environment variable, ${file:PATH} the text of a file: keep secrets there.",
        "",
        f"# default = {_text(name)}  # cluster of commands without --cluster, where there are several",
        "",
        f"[clusters.{key}]",
        _line("prometheus", prometheus, "http://prometheus:9090", "Prometheus, Thanos, Mimir or VictoriaMetrics"),
        _line("bootstrap", bootstrap, "kafka-1:9092,kafka-2:9092", "brokers: members, groups of every kind, replays"),
    ]
    if metrics or prometheus is None:
        lines.append(
            _line(
                "metrics",
                list(metrics) or None,
                ["http://app-1:8000/metrics"],
                "pages, for `watch` and `triage --observe`",
            )
        )
    lines += [
        _line("profiles", list(profiles) or None, ["kafka_exporter", "runtime"], "see: workbench profiles list"),
        '# match = { cluster = "prod" }  # which series of the Prometheus are this cluster\'s',
        "# timeout_seconds = 30  # of one request",
    ]
    if bootstrap is not None:
        lines += ["", "# librdkafka properties: TLS and logins.", f"[clusters.{key}.kafka]"]
        lines += [f"{_text(it)} = {_text(value)}" for it, value in properties.items()]
        if not properties:
            lines += ['# "security.protocol" = "SASL_SSL"', '# "sasl.password" = "${KAFKA_PASSWORD}"']
    lines += [
        "",
        "# What is expected of groups, by name or pattern; the most specific pattern wins.",
        f'# [clusters.{key}.groups."billing-*"]',
        '# time_lag_objective = "5m"  # older than this is late; default: 2m',
        '# owner = "#billing-oncall"',
        '# runbook_base = "https://wiki.example.com/runbooks"  # makes the runbooks of verdicts links',
        '# grafana = "https://grafana.example.com/d/lag?var-group={group}&from={from_ms}&to={to_ms}"',
        "# [clusters.….groups.….actions]: commands that findings show",
        '# actions = { restart_consumers = "kubectl -n billing rollout restart deploy/{group}", '
        'rollback = "kubectl -n billing rollout undo deploy/{group}" }',
        "",
    ]
    return "\n".join(lines)


def _line(name: str, value: object, example: object, why: str) -> str:
    known = value is not None
    return f"{'' if known else '# '}{name} = {_text(value if known else example)}  # {why}"


def _text(value: object) -> str:
    """A TOML string or array: the escapes of JSON are those of TOML."""
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _text(name)
