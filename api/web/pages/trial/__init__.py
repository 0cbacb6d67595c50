"""One trial."""
