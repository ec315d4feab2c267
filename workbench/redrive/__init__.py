"""Redrive of dead letters: hashed plan, exactly-once apply by transactions, proof afterwards. Data flows from `letters` to `verify`."""

__all__: list[str] = []  # its modules are imported by their names
