"""Authentication and authorisation: tokens, sessions, access rules of routes, rate limits, CSRF."""
