"""A family's reference.py: inputs, expected outputs and its `verify` function."""
