"""Mirrors workbench.runbooks."""
