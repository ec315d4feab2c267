"""The sweep: triage of all subscriptions of a fleet, slot by slot; summaries of earlier slots are kept."""

__all__: list[str] = []  # its modules are imported by their names
