"""Checks of timed calls: what a kernel may not do between the calls that are verified."""
