"""Page of the workers and their devices."""
