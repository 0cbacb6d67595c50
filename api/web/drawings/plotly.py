"""Serves Plotly's script from Plotly's Python package, so that browsers load nothing from other hosts."""

import gzip
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
MAP_STYLE = "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"
"""Hashes of the style elements that Plotly creates: an empty one, which Plotly fills with rules, and one for maps."""


def address() -> str:
    """Return the path of the script. The path contains the version, so browsers may cache the script forever."""
    return f"/static/plotly/{version('plotly')}/plotly.min.js"


def script() -> bytes:
    return _path().read_bytes()


@cache
def packed_script() -> bytes:
    """Return the script, compressed by gzip to a third of its size. The result is cached."""
    return gzip.compress(script(), 6)


def _path() -> Path:
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise FileNotFoundError("the Python package plotly is not installed; install it")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"
