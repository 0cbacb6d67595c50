"""Page with the workers and their devices."""
