"""Page of one trial."""
