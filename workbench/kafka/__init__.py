"""Everything that knows Kafka: connections, requests, and the adapters of the ports."""

__all__: list[str] = []  # its modules are imported by their names
