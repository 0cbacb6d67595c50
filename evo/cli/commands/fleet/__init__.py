"""Commands for operators of a service and its workers."""
