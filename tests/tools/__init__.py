"""Programs for whoever changes the code; `make test` does not run them."""
