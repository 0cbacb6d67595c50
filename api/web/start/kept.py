"""What was typed into the form as an address of it: to go back to, also after signing in."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from api.web.start.entry import ENTRIES

CHOSEN = "chosen"
"""The field with the family whose form is wanted instead; no part of what a search is."""

LONGEST_ADDRESS = 7000
"""Characters: what proxies pass on in any case."""


def address_of(typed: Mapping[str, str]) -> str:
    """The form filled in like this; what is as usual is left out."""
    usual = {name: entry.usual for name, entry in ENTRIES.items()}
    given = {"family": ""} | {name: text for name, text in typed.items() if text != usual.get(name)}
    return f"/start?{urlencode(given)}"


def cut_address_of(typed: Mapping[str, str]) -> str:
    """The same, short enough to stand inside another address: of the longest texts only the beginning is kept."""
    kept = dict(typed)
    while len(quote(address_of(kept))) > LONGEST_ADDRESS:
        name = max(kept, key=lambda each: len(quote(kept[each])))
        kept[name] = kept[name][: len(kept[name]) // 2]
    return address_of(kept)
