"""Parts of logs: where a window of time begins and ends, how far a group is through it, what lies behind it, and counts of records."""

__all__: list[str] = []  # its modules are imported by their names
