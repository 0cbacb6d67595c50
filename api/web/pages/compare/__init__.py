"""Page that compares two trials."""
