"""Commands for variants, which are submitted by people and agents, or proposed by language models."""
