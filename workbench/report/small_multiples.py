"""Small multiples: the lag of each partition as a picture of its own, all at the same scale."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from markupsafe import Markup

from workbench.features.chart_series import series_of
from workbench.humanize import count, plural, printable
from workbench.triage.finding import Finding
from workbench.window import Window

_WIDTH, _HEIGHT = 240, 120
_MOST = 24  # the partitions that lag most; the table has all


def multiples_svg(finding: Finding, samples: Any, window: Window) -> Markup:
    """The pictures, the largest lag first; empty for a single partition, whose lag is a chart already."""
    series = series_of(samples, window, group=finding.group, topic=finding.topic)
    lines = [line for line in series.lag if not np.isnan(line.values).all()]
    if len(lines) < 2:
        return Markup("")
    lines.sort(key=lambda line: -float(np.nanmax(line.values)))
    top = max(1.0, float(np.nanmax(lines[0].values)))
    first, last = float(series.times[0]), float(series.times[-1])
    scale = _WIDTH / max(1e-9, last - first)
    shade = max(0.0, (window.start.timestamp() - first) * scale)
    since = (finding.since.timestamp() - first) * scale if finding.since is not None else None
    mark = f'<line class="onset" x1="{since:.1f}" x2="{since:.1f}" y1="0" y2="{_HEIGHT}"/>' if since is not None else ""
    parts = []
    for line in lines[:_MOST]:
        name = f"partition {printable(line.name)}"
        peak = f"up to {count(float(np.nanmax(line.values)))}"
        parts.append(
            f"<figure><figcaption>{escape(name)}<small>{peak}</small></figcaption>"
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(name)}: {peak}">'
            f'<rect class="window" x="{shade:.1f}" y="0" width="{_WIDTH - shade:.1f}" height="{_HEIGHT}"/>{mark}'
            f'<path d="{_path(series.times - first, line.values, scale, top)}"/></svg></figure>'
        )
    more = f" The {_MOST} with the most, of {plural(len(lines), 'partition')}." if len(lines) > _MOST else ""
    words = f'<p class="soft">Lag of each partition in messages, all from 0 to {count(top)}.{more}</p>'
    return Markup(f'{words}<div class="multiples">{"".join(parts)}</div>')  # noqa: S704 - numbers, and names escaped above


def _path(times: Any, values: Any, scale: float, top: float) -> str:
    """Line through the values; a gap where nothing was measured."""
    words, pen = [], "M"
    for at, value in zip(times, values, strict=True):
        if np.isnan(value):
            pen = "M"
            continue
        words.append(f"{pen}{at * scale:.1f} {_HEIGHT - 4 - (_HEIGHT - 8) * value / top:.1f}")
        pen = "L"
    return " ".join(words)
