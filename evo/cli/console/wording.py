"""What anybody says, as the command line says it: with its own commands, and without passwords."""

import re

from evo.text.masking import masked

_COMMANDS = (
    (r"GET /searches/(\w+)/trials", r"`kernel-evo trials \1`"),
    (r"GET /searches", "`kernel-evo searches`"),
    (r"GET /champions", "`kernel-evo champion show`"),
    (r"GET /workers", "`kernel-evo workers`"),
)
"""The service names the requests that help; whoever types commands has these."""


def said(message: str) -> str:
    """A message for people at a terminal."""
    for request, command in _COMMANDS:
        message = re.sub(request, command, message)
    return masked(message)


def typed(arguments: list[str]) -> str:
    """A command line to be shown or kept: without tokens and passwords."""
    secret = re.sub(r"(--token[= ])\S+", r"\1***", " ".join(arguments))
    return masked(secret)
