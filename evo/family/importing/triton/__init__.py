"""Drafts a family from a Triton source."""
