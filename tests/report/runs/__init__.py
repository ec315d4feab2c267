"""Mirrors workbench.report.runs."""
