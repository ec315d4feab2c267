"""Panels for notebooks. They contain no analysis: they call the same API as the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.widgets.dead_letter_panel import LettersPanel, letters_panel
    from workbench.widgets.game_day import GameDayPanel, game_day_panel
    from workbench.widgets.replay import ReplayPanel, replay_panel
    from workbench.widgets.triage import TriagePanel, triage_panel

_ROOMS = {
    "TriagePanel": "triage", "triage_panel": "triage",
    "ReplayPanel": "replay", "replay_panel": "replay",
    "LettersPanel": "dead_letter_panel", "letters_panel": "dead_letter_panel",
    "GameDayPanel": "game_day", "game_day_panel": "game_day",
}  # fmt: skip

__all__ = [
    "GameDayPanel",
    "LettersPanel",
    "ReplayPanel",
    "TriagePanel",
    "game_day_panel",
    "letters_panel",
    "replay_panel",
    "triage_panel",
]


def __getattr__(name: str) -> Any:
    """Import a panel's module on first use: triage needs neither the replay's client nor the lab."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
