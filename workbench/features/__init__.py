"""Samples to features: pure Spark, one wide row per subscription with its details as arrays.

samples → summary (per series and period) → partitions, members, queues, processors → subscriptions
"""

__all__: list[str] = []  # its modules are imported by their names
