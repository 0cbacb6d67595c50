"""Two trials side by side."""
