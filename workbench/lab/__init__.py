"""Lab: a real Kafka and Prometheus on this computer, with real consumers and faults, for demo, tests and game days."""

__all__: list[str] = []  # its modules are imported by their names
