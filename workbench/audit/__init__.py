"""Did everything arrive? Counts by layer, exact after restarts: rows, ledger, gate."""

__all__: list[str] = []  # its modules are imported by their names
