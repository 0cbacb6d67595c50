"""Commands for variants: submitted by people and agents, or proposed by language models."""
