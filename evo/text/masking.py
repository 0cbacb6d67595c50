"""Mask passwords in addresses."""

import re

_PASSWORD = re.compile(r"(:/{1,2}[^\s/:@]*):[^\s/@]+@")


def masked(text: str) -> str:
    """Return a text with the passwords of URLs replaced by ``***``."""
    return _PASSWORD.sub(r"\1:***@", text)
