"""Sections of a search's report."""
