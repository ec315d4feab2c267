"""What type checkers see of the package."""
