"""Records the files outside the family's folder that reference.py imports or reads."""

import importlib.machinery
import json
import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

OURS = frozenset({"evo", "workers", "api", "db", "templates"})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_NOT_FILES = ("/proc/", "/sys/", "/dev/")
_STANDARD = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_opened: set[str] = set()
_reading = threading.local()


class Siblings(MetaPathFinder):
    """Import finder that lets reference.py import modules from the family's folder, as a script can.

    A file never replaces a module of the standard library or of kernel-evo with the same name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a top-level module in the folder, or None for a module from elsewhere."""
        if path is not None or fullname in sys.stdlib_module_names or fullname in OURS:
            return None
        return importlib.machinery.PathFinder.find_spec(fullname, [str(self.folder)])

    @classmethod
    def provide(cls, folder: Path, kept: Collection[str]) -> None:
        """Let this process import modules from a folder. Unload the modules from folders of earlier families.

        Args:
            kept: names of modules that remain loaded.
        """
        for earlier in [each for each in sys.meta_path if isinstance(each, cls)]:
            sys.meta_path.remove(earlier)
            for name, module in list(sys.modules.items()):
                if _is_below(module, earlier.folder) and name not in kept:
                    del sys.modules[name]
        sys.meta_path.insert(0, cls(folder))


@contextmanager
def recorded() -> Iterator[None]:
    """Record the files that this thread opens during the ``with`` block."""
    _install_hook()
    before, _reading.now = getattr(_reading, "now", False), True
    try:
        yield
    finally:
        _reading.now = before


@cache
def _install_hook() -> None:
    """Install the audit hook, at most once per process, because a process cannot remove it."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and getattr(_reading, "now", False) and isinstance(arguments[0], str | bytes | os.PathLike):
        _opened.add(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100 - a symbolic link stays as it is


def dependencies(folder: Path) -> dict[str, list[int]]:
    """Return the state of each file that was imported or opened so far (see `_state`), by path.

    Files of the family's folder, the standard library and kernel-evo are excluded, because the cache key already
    depends on their contents. For an installed package, only the file of its top-level module is recorded, because
    every installation rewrites that file.
    """
    found = {}
    for path in {*_imported(), *_opened}:
        if _is_outside(path, folder) and (state := _state(path)) is not None:
            found[path] = state
    return found


def are_unchanged(recorded_states: Mapping[str, list[int]]) -> bool:
    """Return True if no file has changed since `dependencies` recorded it."""
    return all(_state(path) == state for path, state in recorded_states.items())


def packed(found: Mapping[str, list[int]]) -> bytes:
    """Serialize the states of files (see `_state`) for a cache entry."""
    return json.dumps(found, sort_keys=True).encode("utf-8", "surrogateescape")


def unpacked(content: bytes) -> dict[str, list[int]]:
    """Deserialize the states of files from bytes that `packed` returned."""
    found: dict[str, list[int]] = json.loads(content.decode("utf-8", "surrogateescape"))
    return found


def _imported() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        file = _attributes(module).get("__file__")
        if not isinstance(file, str) or name.partition(".")[0] in OURS:
            continue
        if "." not in name or _INSTALLED.isdisjoint(_parts(file)):
            yield file


def _attributes(module: object) -> Mapping[str, object]:
    """Return the attributes of a module. A lazy module, which loads when an attribute is read, is not loaded."""
    try:
        found: Mapping[str, object] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return found


def _is_outside(path: str, folder: Path) -> bool:
    if path.startswith((*_NOT_FILES, f"{folder}{os.sep}")):
        return False
    parts = _parts(path)
    installed = not _INSTALLED.isdisjoint(parts)
    if path in _opened and (installed or "__pycache__" in parts):  # imported modules are recorded by `_imported`
        return False
    return installed or not path.startswith(_STANDARD)


def _parts(path: str) -> list[str]:
    return path.split(os.sep)  # noqa: PTH206 - called for each module at each reference


def _is_below(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.startswith(f"{folder}{os.sep}")


def _state(path: str) -> list[int] | None:
    """Return size, modification time and inode of a regular file, or None if the path is not a regular file."""
    with suppress(OSError, ValueError):
        found = os.stat(path)  # noqa: PTH116 - called for each module at each read of the cache
        if stat.S_ISREG(found.st_mode):
            return [found.st_size, found.st_mtime_ns, found.st_ino]
    return None
