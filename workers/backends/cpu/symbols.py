"""Names in the dynamic symbol table of a shared library: functions that it offers, and those that it needs."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_DYNSYM = 11
_BINDINGS = (1, 2)
"""Global and weak: what other programs see."""

_CODE = (0, 2, 10)
"""Kinds of symbols that can be called: without a type (assembly), functions, functions chosen when they are loaded."""


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """One name of a library.

    Attributes:
        defined: True if the library contains it, False if it needs it.
        callable: True for functions, False for data.
    """

    name: str
    defined: bool
    callable: bool


def is_elf(image: bytes) -> bool:
    """Return True for a 64-bit little-endian ELF file, the only format that is read here."""
    return image[:6] == b"\x7fELF\x02\x01"


def symbols(image: bytes) -> Iterator[Symbol]:
    """Yield the global and weak names of an ELF file; none of a file in another format."""
    if not is_elf(image):
        return
    table, size, count = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + number * size) for number in range(count)]
    for _, kind, _, _, offset, bytes_, link, _, _, entry in sections:
        if kind != _DYNSYM:
            continue
        names = sections[link][4]
        for at in range(offset, offset + bytes_, entry):
            name, info, _, section = struct.unpack_from("<IBBH", image, at)
            if name and info >> 4 in _BINDINGS:
                text = image[names + name : image.index(b"\0", names + name)].decode(errors="replace")
                yield Symbol(name=text, defined=section != 0, callable=info & 15 in _CODE)
