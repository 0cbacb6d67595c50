"""Form that starts a search: fields, user input, and validation."""
