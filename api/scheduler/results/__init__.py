"""Receives results. Each result is accepted once, validated and stored."""
