"""Proposers of variants: agents over the Model Context Protocol, and language models."""
