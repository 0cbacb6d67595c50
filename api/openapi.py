"""Prints the OpenAPI document of this version. Use ``python -m api.openapi > openapi.json``.

A running service serves the same document under ``/api/v1/openapi.json``.
"""

import json
import sys

from api.app import create_app
from api.settings import Settings


def openapi_text() -> str:
    """Return the OpenAPI document as indented JSON with a final newline."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
