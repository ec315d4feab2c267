"""Panels for notebooks. They hold no analysis of their own: what they show comes from the same engine as the command's."""

from workbench.widgets.triage import TriagePanel, triage_panel

__all__ = ["TriagePanel", "triage_panel"]
