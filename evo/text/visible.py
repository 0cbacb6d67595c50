"""Escapes control characters in untrusted text before a terminal or a log shows it.

A terminal obeys escape sequences from any source (kubernetes/kubernetes#101695, CVE-2021-25743), and characters that
change the writing direction can misrepresent a line (CVE-2021-42574, "Trojan Source").
"""

import re
from collections.abc import Iterable

_ACTIVE = re.compile(
    "["
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # C0 without tab and newline, DEL, C1
    "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # writing direction
    "\\u2028\\u2029\\u200b\\u2060\\ufeff"  # invisible line breaks and blanks
    "\\u00ad\\u034f\\u180b-\\u180f\\u2061-\\u2065\\u206a-\\u206f\\ufff0-\\ufffb"  # soft hyphen, other format characters
    "\\u115f\\u1160\\u17b4\\u17b5\\u2800\\u3164\\uffa0"  # letters and patterns that are blank
    "\\ufe00-\\ufe0d"  # variation selectors, except those of emoji
    "\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a"  # format characters of scripts and music
    "\\ud800-\\udfff\\U000e0000-\\U000e0fff"  # surrogates, tags and supplementary variation selectors: invisible
    "]"
)

_BACKTICKS = re.compile("`+")
_AROUND_BREAK = re.compile(r".?[\n\t]+.?")


def visible(text: str) -> str:
    """Replace invisible and control characters with escapes, e.g. ``\\x1b``, or ``\\u202e`` (right-to-left override).

    Tabs, newlines and visible characters are unchanged.
    """
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """Return `visible(text)` with tabs and line breaks escaped too, for names from untrusted users."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def on_one_line(text: str, words: Iterable[str]) -> str:
    """Escape the tabs and line breaks that a message repeats from `words`, and keep the message's own line breaks.

    A tab or line break counts as repeated if the characters before and after it are the same as in one of the words.
    """
    for word in words:
        for part in set(_AROUND_BREAK.findall(word)):
            text = text.replace(part, one_line(part))
    return text


def fenced(text: str, language: str = "") -> str:
    """Return text as a Markdown code block. The fence is longer than any run of backticks in the text."""
    longest = max((len(row) for row in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}\n"


def visible_json(text: str) -> str:
    """Return an equal JSON document with JSON escapes for the characters that `visible` escapes."""
    return _ACTIVE.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
