"""Page of one search: progress, best trials, champion."""
