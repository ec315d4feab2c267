"""Views of findings: terminal, and one offline HTML file."""

__all__: list[str] = []  # its modules are imported by their names
