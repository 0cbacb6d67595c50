"""Form that starts a search, with its fields, user input and validation."""
