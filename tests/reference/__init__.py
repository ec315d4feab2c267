"""References that are printed from the code."""
