"""Page of one search, with progress, best trials and champion."""
