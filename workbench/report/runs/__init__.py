"""Scheduled reports: parameters checked before the start, a deadline for the whole run, and a record that is true however it ended."""

__all__: list[str] = []  # its modules are imported by their names
