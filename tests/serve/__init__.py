"""Tests of `workbench serve` and `workbench mcp`."""
