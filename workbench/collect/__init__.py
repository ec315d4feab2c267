"""Collectors of Arrow samples: Prometheus, Kafka itself, metrics pages, and captures."""

__all__: list[str] = []  # its modules are imported by their names
