"""What happened to each partition, read from its own time series: when it fell behind, how it usually commits, what it lost."""
