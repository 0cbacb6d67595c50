"""What the GPUs of this machine are, and how fast they copy."""
