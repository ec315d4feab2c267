"""Tests of workbench.pulsar."""
