"""Work outside requests: warm-up and periodic tasks."""
