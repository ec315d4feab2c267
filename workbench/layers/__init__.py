"""What the layers of a pipeline tell of themselves: rows by positions, and what makes them in any consumer or producer."""

__all__: list[str] = []  # its modules are imported by their names
