"""Replay by timestamp into a new consumer group: plan, apply, follow, verify, cut over; and the way back from each."""
