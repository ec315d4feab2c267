"""Features to findings: the decision tree as data, the walk through it, and what to do."""
