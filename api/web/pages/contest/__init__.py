"""Page with the champion and the leaderboard of one problem."""
