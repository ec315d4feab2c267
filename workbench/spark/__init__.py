"""Apache Spark: the Java it runs on, its start, its session, and how its columns are written."""

__all__: list[str] = []  # its modules are imported by their names
