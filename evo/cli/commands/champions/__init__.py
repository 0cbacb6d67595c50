"""Commands for champions and their export."""
