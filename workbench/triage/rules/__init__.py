"""The rules of the questions: of each, the first one that holds answers it."""
