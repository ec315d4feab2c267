"""Features to findings: the decision tree as data, the walk through it, and what to do."""

__all__: list[str] = []  # its modules are imported by their names
