"""Writes the folder of a complete family that runs and serves as a starting point (``kernel-evo new``)."""

import contextlib
import ctypes
import re
from pathlib import Path

from evo.cli.files.writing import check_place, shown_path, write_folder, writing_to
from evo.errors import InvalidInput
from evo.family.source.language import reserved_for
from evo.text.shell import command
from templates import registry

SOURCE = Path(__file__).with_name("scaffold")
FILES = ("family.toml", "kernel.c.j2", "reference.py")


def write_scaffold(folder: Path) -> list[Path]:
    """Write the family's files into a new folder that is named like the family. Return their paths.

    Raises:
        InvalidInput: the folder's name is not a valid family name, or is the name of a built-in family.
        Conflict: the path is a file, or the folder is not empty. Nothing is overwritten.
    """
    name = check_place(folder, "FOLDER")
    if name in registry.names():
        other = command("new", shown_path(folder.with_name(f"my_{name}")))
        raise InvalidInput("FOLDER", f"a built-in family is called {name}; choose another name, e.g. {other}")
    with writing_to(folder, "FOLDER"):
        return write_folder(folder, {file: _filled(file, name) for file in FILES})


def _filled(file: str, name: str) -> str:
    text = (SOURCE / file).read_text(encoding="utf-8")
    return text.replace("{name}", name).replace("{entry}", _entry(name))


def _entry(name: str) -> str:
    """Return a function name that C allows and the C library does not define, e.g. ``int_kernel``."""
    entry = re.sub(r"\W", "_", name, flags=re.ASCII)
    entry = f"kernel_{entry}" if entry[0].isdigit() else entry
    taken = entry == "main" or reserved_for(entry, "c++") or _in_the_library(entry)
    return f"{entry}_kernel" if taken else entry


def _in_the_library(name: str) -> bool:
    """Return True if the C library defines a function called `name`, which a kernel of this name would replace."""
    libraries = [ctypes.CDLL(None)]
    with contextlib.suppress(OSError):  # on other systems, the C library contains the functions of libm
        libraries.append(ctypes.CDLL("libm.so.6"))
    return any(hasattr(each, name) for each in libraries)
