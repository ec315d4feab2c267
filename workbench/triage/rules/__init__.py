"""The rules of the questions: of each, the first one that holds answers it."""

__all__: list[str] = []  # its modules are imported by their names
