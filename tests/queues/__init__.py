"""Ports to message queues."""
