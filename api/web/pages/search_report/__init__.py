"""Report of a search as one HTML file."""
