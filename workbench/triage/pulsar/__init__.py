"""Why a subscription of Pulsar lags: questions about one partition after two looks at it. Begin with `pulsar_questions`."""

__all__: list[str] = []  # its modules are imported by their names
