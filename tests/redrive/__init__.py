"""Tests of workbench.redrive."""
