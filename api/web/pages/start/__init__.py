"""Form that starts a search: its fields, the user's input, and validation."""
