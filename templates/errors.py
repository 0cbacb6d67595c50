"""Errors of rendering."""

from evo.errors import EvoError


class RenderError(EvoError, ValueError):
    """A template did not render; the message names file, line and error."""
