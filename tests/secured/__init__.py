"""Tests on three secured brokers."""
