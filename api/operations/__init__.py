"""Operation of the service: periodic tasks, failures, logs and metrics."""
