"""Benches: ours and its peer in the same run. A ratio over 1 means that ours is better."""
