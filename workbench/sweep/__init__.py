"""The sweep: all subscriptions of a fleet, slot by slot, with what is known of earlier slots kept."""
