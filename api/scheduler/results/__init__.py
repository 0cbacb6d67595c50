"""Receives results: each result is accepted once, validated and stored."""
