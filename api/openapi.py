"""Writes the OpenAPI document of this version: ``python -m api.openapi [--check]``."""

import json
import sys
from pathlib import Path

from api.app import create_app
from api.settings import Settings

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "openapi.json"


def openapi_text() -> str:
    """Return the text of the document as the repository keeps it."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the document; with ``--check``, only compare it with the code."""
    if "--check" not in arguments:
        DOCUMENT.parent.mkdir(parents=True, exist_ok=True)
        DOCUMENT.write_text(openapi_text(), encoding="utf-8")
        return 0
    if DOCUMENT.exists() and DOCUMENT.read_text(encoding="utf-8") == openapi_text():
        return 0
    sys.stderr.write(f"{DOCUMENT.name} differs from the code: run `make openapi`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
