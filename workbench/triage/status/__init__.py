"""One module for each question about the state of a subscription: its rules and words, and the verdicts that it leads to."""

__all__: list[str] = []  # `triage.question_order` imports its modules
