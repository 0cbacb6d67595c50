"""Commands of those who run a service and its workers."""
