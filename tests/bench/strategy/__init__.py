"""How good the strategies are at searching recorded spaces, beside others: ``make bench-strategy``."""
