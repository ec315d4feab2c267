"""Samples to features: pure Spark, one wide row per subscription with its details as arrays.

samples → summary (per series and period) → partitions, members, queues, processors → subscriptions
"""
