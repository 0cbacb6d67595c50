"""Suites: problems that are tuned together, and the small sets of configs that serve all of them."""

from evo.search.suite.suite import Call, Suite, suite_from

__all__ = ["Call", "Suite", "suite_from"]
