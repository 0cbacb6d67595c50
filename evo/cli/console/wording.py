"""Adapt messages to the command line: name its commands instead of requests, and mask passwords."""

import re

from evo.text.masking import masked

_COMMANDS = (
    (r"GET /searches/(\w+)/trials", r"`kernel-evo trials \1`"),
    (r"GET /searches", "`kernel-evo searches`"),
    (r"GET /champions", "`kernel-evo champion show`"),
    (r"GET /workers", "`kernel-evo workers`"),
)
"""Requests that the service's messages name, and the commands that replace them."""


def user_text(message: str) -> str:
    """Return a message of the service as the command line prints it."""
    for request, command in _COMMANDS:
        message = re.sub(request, command, message)
    return masked(message)


def typed(arguments: list[str]) -> str:
    """Return a command line without its tokens and passwords."""
    secret = re.sub(r"(--token[= ])\S+", r"\1***", " ".join(arguments))
    return masked(secret)
