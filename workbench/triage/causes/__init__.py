"""One module for each cause of a lag, named by its verdict: its questions with their rules, its words, share, actions and checks."""

__all__: list[str] = []  # `triage.question_order` imports its modules
