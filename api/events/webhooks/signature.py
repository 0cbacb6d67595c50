"""Signs webhook messages according to https://www.standardwebhooks.com, with HMAC-SHA256 over id, time and body."""

import base64
import hashlib
import hmac
from datetime import datetime

PREFIX = "whsec_"
"""Prefix of a base64 secret."""


def signing_key(secret: str) -> bytes:
    """Return the HMAC key of a secret: the decoded base64 after `PREFIX`, or else the bytes of the whole secret.

    Raises:
        ValueError: the text after `PREFIX` is not base64.
    """
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        raise ValueError(f"the part after {PREFIX} must be base64") from None


def signed(secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of a message: the message id (the same in all retries), the time, and the signature."""
    timestamp = str(int(at.timestamp()))
    content = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(signing_key(secret), content, hashlib.sha256).digest()).decode()
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signature}",
    }
