"""All searches."""
