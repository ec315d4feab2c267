"""Mutated inputs for every parser of foreign bytes; `python -m tests.fuzz` runs them."""
