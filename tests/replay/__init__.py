"""Replay: planning, guards, files and the rolling change, without a broker (the real one is in tests/lab)."""
