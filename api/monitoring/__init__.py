"""Logs and metrics of a service process."""
