"""Pulsar for the runtime: consumers of failover and exclusive subscriptions, producers of dead letters, and the ends of topics."""

__all__: list[str] = []  # its modules are imported by their names
