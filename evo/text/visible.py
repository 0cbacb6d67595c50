"""Escape control characters in foreign text before a terminal or a log shows it.

A terminal obeys escape sequences from any source (kubernetes/kubernetes#101695, CVE-2021-25743), and marks of writing
direction can misrepresent a line (CVE-2021-42574, "Trojan Source").
"""

import re

_ACTIVE = re.compile(
    "["
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # C0 without tab and newline, DEL, C1
    "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # writing direction
    "\\u2028\\u2029\\u200b\\u2060\\ufeff"  # invisible line breaks and blanks
    "\\ud800-\\udfff\\U000e0000-\\U000e007f"  # surrogates, and tags, which are invisible
    "]"
)


def visible(text: str) -> str:
    """Return the text with ``\\x1b`` in place of an escape, ``\\u202e`` in place of a right-to-left override, and so
    on.

    Tabs, newlines and visible characters are unchanged.
    """
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """Return the text with tabs and line breaks escaped as well; for names from untrusted users."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_json(text: str) -> str:
    """Return an equal JSON document with those characters as JSON escapes."""
    return _ACTIVE.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
