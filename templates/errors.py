"""Errors that occur while a template is rendered."""

from evo.errors import EvoError


class RenderError(EvoError, ValueError):
    """A template could not be rendered. The message contains the file, the line and the error."""
