"""Error page."""
