"""Apache Spark: its Java, its start, its session, and its column expressions."""

__all__: list[str] = []  # its modules are imported by their names
