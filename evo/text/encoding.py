"""Reads text files in UTF-8, with or without a byte order mark."""

import codecs
import re
from importlib.util import decode_source
from pathlib import Path

from evo.text.shell import quoted

_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+.*$")
"""Matches the line that declares the encoding of a Python source. It may be the first or the second line."""


def utf8_text(content: bytes) -> str:
    """Decode a text file in UTF-8, with or without a byte order mark.

    Raises:
        UnicodeDecodeError: the bytes are not UTF-8, or contain NUL, as UTF-16 without a byte order mark does.
    """
    text = content.decode("utf-8-sig")
    _refuse_nul(content)
    return text


def _refuse_nul(content: bytes) -> None:
    if (nul := content.find(b"\0")) >= 0:
        raise UnicodeDecodeError("utf-8", content, nul, nul + 1, "NUL")


def not_utf8(content: bytes, error: UnicodeDecodeError, file: str) -> str:
    """Return an error message for a file that is not UTF-8, with the command that converts it."""
    name = quoted(file)
    what = f"is not UTF-8 text: byte 0x{content[error.start]:02x} at {error.start}"
    if content.startswith(b"\x1f\x8b"):
        return f"is compressed with gzip; decompress it, e.g. `gzip -dc < {name} > utf8.txt && mv utf8.txt {name}`"
    if wide := _wide_encoding(content):
        what, command = f"is {wide.upper()}; save it as UTF-8", f"iconv -f {wide} -t utf-8 {name}"
    elif 0 not in content:
        what, command = f"{what}; save it as UTF-8", f"iconv -f latin1 -t utf-8 {name}"
    elif content[error.start] == 0:
        what = f"contains the byte 0x00 (NUL) at {error.start}, which is not text; remove all NUL bytes"
        command = f"tr -d '\\0' < {name}"
    else:
        return f"{what}, and NUL bytes; it is not a text file"
    return f"{what}, e.g. `{command} > utf8.txt && mv utf8.txt {name}`"


def not_gzip(path: Path) -> str:
    """Return an error message for a file whose name ends in ``.gz`` but which gzip cannot read."""
    name, plain = quoted(str(path)), quoted(str(path.with_suffix("")))
    return f"is not compressed with gzip, or damaged; if it is plain text, rename it: `mv {name} {plain}`"


def _wide_encoding(content: bytes) -> str:
    """Return iconv's name of the encoding if the content seems to be UTF-16 or UTF-32, else an empty string.

    Without a byte order mark, only UTF-16 is recognised: at least half of the bytes at even positions, or of those at
    odd positions, must be NUL, and no other bytes.
    """
    if content.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    low, high = content[::2].count(0), content[1::2].count(0)
    if 4 * max(low, high) < len(content) or min(low, high):
        return ""
    return "utf-16le" if high else "utf-16be"


def python_text(content: bytes) -> str:
    """Decode a Python source, and return it without the line that declares its encoding.

    Raises:
        SyntaxError: the file declares an unknown encoding.
        UnicodeDecodeError: the bytes are not valid in the declared encoding, which is UTF-8 by default, or contain NUL.
    """
    _refuse_nul(content)
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
