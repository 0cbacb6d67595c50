"""Error messages for names that do not exist."""

import difflib
import re
from collections.abc import Collection

MAX_SHOWN = 100
"""Maximum number of characters of a wrong name that the message repeats."""

_LONG = 1000
"""A list of names with more characters than this is omitted if the message suggests the closest name."""


def unknown(name: str, known: Collection[str], what: str) -> str:
    """Return the error message for an unknown name.

    The message suggests the closest known name and lists all names. A very long list is omitted if there is a
    suggestion.

    Args:
        what: plural noun for the known names, e.g. ``targets``.
    """
    name = name[:MAX_SHOWN]
    near = difflib.get_close_matches(name.lower(), [entry.lower() for entry in known], n=1, cutoff=0.6)
    longer = [entry for entry in known if _part(name, entry)]
    meant = [entry for entry in known if entry.lower() in near] or (longer if len(longer) == 1 else [])
    hint = f", did you mean `{meant[0]}`?" if meant else "."
    listed = ", ".join(sorted(known)) or "none"
    if meant and len(listed) > _LONG:
        return f"there is no `{name}`{hint}"
    return f"there is no `{name}`{hint} {what[0].upper()}{what[1:]}: {listed}"


def _part(name: str, entry: str) -> bool:
    """Return True if `name` is one of the words of the name `entry`, e.g. ``L4`` of ``NVIDIA L4``."""
    return name.lower() in re.findall(r"[a-z0-9]+", entry.lower())
