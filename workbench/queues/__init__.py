"""Ports to message queues, and what they speak of: partitions, positions, subscriptions. No queue is known here."""

__all__: list[str] = []  # its modules are imported by their names
