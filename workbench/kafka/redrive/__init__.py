"""Dead letters in Kafka: their reader, and the transactional producer."""

__all__: list[str] = []  # its modules are imported by their names
