"""Mirrors workbench.widgets."""
