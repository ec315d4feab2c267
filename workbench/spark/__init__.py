"""Apache Spark: the Java it runs on, its start, its session, and how its columns are written."""
