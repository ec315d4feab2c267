"""What happened to each partition, read from its own series: when it fell behind, how it usually commits, what it lost."""

__all__: list[str] = []
