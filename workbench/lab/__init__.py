"""The lab: a real Kafka and Prometheus on this computer, real consumers and real faults, for demo, tests and game days."""

__all__: list[str] = []  # its modules are imported by their names
