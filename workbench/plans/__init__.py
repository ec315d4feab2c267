"""What every plan is made of: hashed, strict documents, a journal, locks, refusals, and the confirmation by a person."""

__all__: list[str] = []  # its modules are imported by their names
