"""Replay by timestamp into a new consumer group: plan, apply, follow, verify, cut over, roll back."""

__all__: list[str] = []  # its modules are imported by their names
