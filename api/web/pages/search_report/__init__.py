"""The report of a search as one HTML file."""
