"""Receives results: each is accepted once, validated and stored."""
