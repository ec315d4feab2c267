"""Runbooks: one for each verdict and each alert, held to the tree's declaration and to the alert rules."""
