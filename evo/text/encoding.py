"""Reads text files in UTF-8, with or without a byte order mark."""

import codecs
import re
from importlib.util import decode_source

from evo.text.shell import quoted

_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+.*$")
"""Matches the line that declares the encoding of a Python source. It may be the first or the second line."""


def not_utf8(content: bytes, error: UnicodeDecodeError, file: str) -> str:
    """Return an error message for a file that is not UTF-8, with the command that converts it."""
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding, name = "utf-16" if utf16 else "latin1", quoted(file)
    what = "is UTF-16" if utf16 else f"is not UTF-8 text: byte 0x{content[error.start]:02x} at {error.start}"
    return f"{what}; save it as UTF-8, e.g. `iconv -f {encoding} -t utf-8 {name} > utf8.txt && mv utf8.txt {name}`"


def python_text(content: bytes) -> str:
    """Decode a Python source, and return it without the line that declares its encoding.

    Raises:
        SyntaxError: the file declares an unknown encoding.
        UnicodeDecodeError: the bytes are not valid in the declared encoding, which is UTF-8 by default.
    """
    try:
        lines = decode_source(content).split("\n")
    except SyntaxError:
        content.decode("utf-8-sig")  # if no encoding is declared, this error is more specific
        raise
    for number, line in enumerate(lines[:2]):
        if _COOKIE.match(line):
            return "\n".join(lines[:number] + lines[number + 1 :])
        if line.strip() and not line.lstrip().startswith("#"):
            break
    return "\n".join(lines)
