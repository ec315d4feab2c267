"""Scheduled reports: parameters checked before the start, a deadline for each run, and a reliable record of its outcome."""

__all__: list[str] = []  # its modules are imported by their names
