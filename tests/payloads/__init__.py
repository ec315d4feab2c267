"""Tests of workbench.payloads."""
