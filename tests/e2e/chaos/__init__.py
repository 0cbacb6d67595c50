"""Random faults in a running fleet, and an audit of the result: ``make chaos``."""
