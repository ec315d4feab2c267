"""Scheduled reports: parameters checked before the start, a deadline for the whole run, and a record that is true however it ended."""
