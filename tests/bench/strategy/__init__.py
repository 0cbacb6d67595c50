"""Quality of strategies on recorded spaces, compared with other tuners: ``make bench-strategy``."""
