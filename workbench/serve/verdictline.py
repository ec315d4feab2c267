"""Picture of a subscription's verdicts over days: a band by state, and the time lag as a line below it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from workbench.humanize import duration
from workbench.serve.store import Row

_WIDTH, _BAND, _HEIGHT = 720.0, 18.0, 84.0
_GAP = 6.0


def verdict_line(findings: Sequence[Row], *, now: float, days: int) -> Markup:
    """Draw findings of one subscription, oldest first, as inline SVG; every text is escaped."""
    first = now - days * 86_400.0
    scale = _WIDTH / (now - first)
    parts = [
        f'<svg class="verdicts" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="Verdicts and time lag of the last {days} days">'
    ]
    ends = [it["at"] for it in findings[1:]] + [now]
    band: tuple[str, str, float, float] | None = None  # equal verdicts in a row are one rectangle
    for it, end in zip(findings, ends, strict=True):
        if band is not None and band[0] == it["verdict"]:
            band = (*band[:3], end)
            continue
        if band is not None:
            parts.append(_rectangle(band, first, scale))
        band = (it["verdict"], it["state"], it["at"], end)
    if band is not None:
        parts.append(_rectangle(band, first, scale))
    known = [(it["at"], it["time_lag"]) for it in findings if it["time_lag"] is not None]
    top = max((lag for _, lag in known), default=0.0) or 1.0
    low, room = _HEIGHT - 2, _HEIGHT - _BAND - _GAP - 2
    points = " ".join(f"{(at - first) * scale:.1f},{low - room * lag / top:.1f}" for at, lag in known)
    if points:
        parts.append(
            f'<polyline points="{points}"><title>{escape(f"time lag, up to {duration(top)}")}</title></polyline>'
        )
    return Markup("".join(parts) + "</svg>")  # noqa: S704 - numbers, and words escaped above


def _rectangle(band: tuple[str, str, float, float], first: float, scale: float) -> str:
    verdict, state, start, end = band
    width = max(1.5, (end - start) * scale)
    words = f"{verdict.replace('_', ' ')} for {duration(end - start)}"
    return (
        f'<rect class="{escape(state)}" x="{(start - first) * scale:.1f}" y="0" width="{width:.1f}" height="{_BAND:g}">'
        f"<title>{escape(words)}</title></rect>"
    )
