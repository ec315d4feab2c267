"""Tests of lab."""
