"""What the questions test: facts of one subscription, computed from its measured features in plain Python."""

__all__: list[str] = []  # its modules are imported by their names
