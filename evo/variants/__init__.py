"""Proposers of variants: folders, language models, and agents over the Model Context Protocol."""
