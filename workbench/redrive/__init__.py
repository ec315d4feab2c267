"""Redrive of dead letters: hashed plan, exactly-once apply by transactions, proof afterwards. Data flows from `letters` to `verify`."""
