"""The variants of a search, and each of them."""
