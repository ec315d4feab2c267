"""How well triage judges: simulated stories, tiers of signals, live incidents, ablation. Neither shipped nor tests."""

__all__: list[str] = []  # run as modules: see the Makefile
