"""Masks passwords in URLs, and checks secrets before they are sent in headers."""

import re

from evo.errors import InvalidInput

_PASSWORD = re.compile(r"(:/{1,2}[^\s/:@]*):[^\s/@]+@")


def masked(text: str) -> str:
    """Return a string in which ``***`` replaces passwords of URLs."""
    return _PASSWORD.sub(r"\1:***@", text)


def sendable(field: str, secret: str, *, form: str) -> str:
    """Return a secret after checking that an HTTP header can contain it.

    Args:
        field: name of the secret in the error message.
        form: description of a valid secret, shown in the error message.

    Raises:
        InvalidInput: the secret contains a character other than visible ASCII. The message does not repeat the secret.
    """
    if not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise InvalidInput(
            field, f"contains characters that a {field} cannot have, e.g. a line break; copy it again, {form}"
        )
    return secret
