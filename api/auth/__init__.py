"""Who calls, and whether they may: tokens, sessions, the rule of each route, limits, and headers for browsers."""
