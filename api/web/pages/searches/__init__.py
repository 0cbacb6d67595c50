"""List of all searches."""
