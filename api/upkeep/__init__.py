"""What runs besides requests: warm-up and periodic tasks."""
