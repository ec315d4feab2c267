"""Three real brokers: secured as in production, or with tiered storage."""
