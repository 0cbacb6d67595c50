"""Champion and leaderboard of one problem."""
