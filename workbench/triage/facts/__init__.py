"""What the questions test: facts of one subscription, computed from its measured features in plain Python."""
