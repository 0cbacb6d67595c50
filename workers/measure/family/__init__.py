"""A family's reference.py: inputs, expected outputs, and its own judgement of outputs."""
