"""Runbooks: one for each verdict and each alert, held to the tree's declaration and to the alert rules."""

__all__: list[str] = []  # its modules are imported by their names
