"""Findings to what people read: the terminal view, and one offline HTML file."""
