"""Workers and their devices."""
