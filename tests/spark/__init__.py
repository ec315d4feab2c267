"""Tests of Spark's start and session."""
