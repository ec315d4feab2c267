"""From the outside world to Arrow samples: Prometheus, Kafka itself, metrics pages, and captures of all of them."""

__all__: list[str] = []  # its modules are imported by their names
