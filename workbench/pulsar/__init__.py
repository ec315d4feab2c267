"""Everything that knows Pulsar: its admin's REST API, its settings, its bundles."""

__all__: list[str] = []  # its modules are imported by their names
