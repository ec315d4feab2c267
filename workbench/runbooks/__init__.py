"""Runbooks: one for each verdict and each alert, checked against the tree and the alert rules."""

__all__: list[str] = []  # its modules are imported by their names
