"""Kafka for the runtime: consumers, producers of dead letters, and what is asked of the brokers beside them."""

__all__: list[str] = []  # its modules are imported by their names
