"""Tests of the stories of partitions."""
