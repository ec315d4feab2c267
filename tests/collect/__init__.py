"""Tests of collect."""
