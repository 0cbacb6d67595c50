"""Measures error rates of verdicts on recorded noise, and compares predictions with later processes."""
