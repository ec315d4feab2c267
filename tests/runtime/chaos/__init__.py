"""Instances that are restarted, killed and frozen on a real broker, and the ledger of what they did."""
