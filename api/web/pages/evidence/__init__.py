"""Evidence of a champion, and its report."""
