"""The form's input as an address that returns to it, also after signing in."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from api.web.pages.start.entry import ENTRIES

CHOSEN = "chosen"
"""Field that selects another family's form. It is not part of a search."""

LONGEST_ADDRESS = 7000
"""Longest address in characters that proxies accept."""


def address_of(typed: Mapping[str, str]) -> str:
    """Return the address of the form with this input, without defaults."""
    usual = {name: entry.usual for name, entry in ENTRIES.items()}
    given = {"family": ""} | {name: text for name, text in typed.items() if text != usual.get(name)}
    return f"/start?{urlencode(given)}"


def cut_address_of(typed: Mapping[str, str]) -> str:
    """Return the same address, short enough to be a parameter of another address: the longest texts are cut."""
    kept = dict(typed)
    while len(quote(address_of(kept))) > LONGEST_ADDRESS:
        name = max(kept, key=lambda each: len(quote(kept[each])))
        kept[name] = kept[name][: len(kept[name]) // 2]
    return address_of(kept)
