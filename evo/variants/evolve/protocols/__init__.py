"""Protocols of language models: how a request is sent with a vendor's SDK, and what its response contains."""
