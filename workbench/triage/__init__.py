"""Features to findings: the decision tree as data, its evaluation, and the actions."""

__all__: list[str] = []  # its modules are imported by their names
