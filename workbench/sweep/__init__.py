"""The sweep: all subscriptions of a fleet, slot by slot, with what is known of earlier slots kept."""

__all__: list[str] = []  # its modules are imported by their names
