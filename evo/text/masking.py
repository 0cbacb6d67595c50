"""Passwords in addresses, as they may be shown: not at all."""

import re

_PASSWORD = re.compile(r"(:/{1,2}[^\s/:@]*):[^\s/@]+@")


def masked(text: str) -> str:
    """A text in which nobody can read the password of a URL."""
    return _PASSWORD.sub(r"\1:***@", text)
