"""Random faults at a running fleet, and what must hold afterwards: ``make chaos``."""
