"""Pulsar for redrives: letters of retry and dead-letter topics, what is asked about them, and the producer."""

__all__: list[str] = []  # its modules are imported by their names
