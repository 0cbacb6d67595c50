"""Assigns jobs to workers."""
