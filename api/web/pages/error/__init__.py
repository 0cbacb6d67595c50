"""The page of an error."""
