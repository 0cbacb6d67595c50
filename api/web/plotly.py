"""The plotting library's script, as its Python package carries it: nothing is fetched from elsewhere."""

import gzip
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
MAP_STYLE = "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"
"""The two style elements it adds: an empty one that it fills by rules, and one of its maps, which are not used here."""


def address() -> str:
    """Where the service offers the script: the version is part of it, so that it may be kept for good."""
    return f"/static/plotly/{version('plotly')}/plotly.min.js"


def script() -> bytes:
    return _path().read_bytes()


@cache
def packed_script() -> bytes:
    """The same for browsers that unpack: a third of it, packed once."""
    return gzip.compress(script(), 6)


def _path() -> Path:
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise FileNotFoundError("the package plotly is not installed")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"
