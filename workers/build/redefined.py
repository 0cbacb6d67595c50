"""Finds the macros in front of a source that headers replace or remove, in the output of ``cc -E -dD``."""

import re
from collections.abc import Collection, Iterator

_MARKER = re.compile(r'#(?: |line )(\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_CHANGE = re.compile(r"#(define|undef) (\w+)(.*)")
_PUSHED = re.compile(r'#pragma push_macro\("(\w+)"\)')


def replaced_macros(preprocessed: str, names: Collection[str], *, own: str) -> Iterator[str]:
    """Yield a warning, in the form of gcc's, for each macro whose value from the source a header replaces or removes.

    A header of the family may remove a macro after its last use. A macro that is pushed is restored later.

    Args:
        names: macros of the source.
        own: name of the source's file, in which they are defined first.
    """
    wanted = {*names}.difference(_PUSHED.findall(preprocessed))
    values, changed = dict[str, str](), dict[str, tuple[str, str]]()
    file, line, system = "", 0, False
    for text in preprocessed.split("\n"):
        if (marker := _MARKER.match(text)) is not None:
            file, line, system = marker[2], int(marker[1]), " 3" in marker[3]
            continue
        if (change := _CHANGE.match(text)) is not None and change[2] in wanted:
            what, name, value = change.groups()
            if file == own:
                values[name] = value
            elif name in values and values[name] != value and (what == "define" or system):
                changed.setdefault(name, (f"{file}:{line}", "undefined"))
                changed[name] = (f"{file}:{line}", "redefined") if what == "define" else changed[name]
        line += 1
    for name, (place, how) in changed.items():
        yield f'{place}: warning: "{name}" {how}'
