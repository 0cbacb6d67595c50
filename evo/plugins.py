"""Discovers extensions, e.g. strategies and device kinds, in kernel-evo's and in other installed packages."""

from collections.abc import Callable, Collection, Iterable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import TypeVar, cast

from evo.errors import EvoError

_Marked = TypeVar("_Marked")
_Own = TypeVar("_Own")


def mark(marked: dict[str, _Marked], name: str, plural: str) -> Callable[[_Own], _Own]:
    """Return a decorator that registers an object under a name and returns it unchanged.

    Args:
        marked: registered objects by name; the decorated object is added.
        name: name under which the object is registered.
        plural: plural noun for such objects, used in the error, e.g. ``strategies``.

    Raises:
        ValueError: the name is already registered. The decorator raises the error when it is applied.
    """

    def add(own: _Own) -> _Own:
        if name in marked:
            raise ValueError(f"two {plural} are named {name!r}; rename one of them")
        marked[name] = cast(_Marked, own)
        return own

    return add


def import_modules(package: str, path: Iterable[str], without: Collection[str] = ()) -> None:
    """Import a package's modules, which then register their classes or functions (see `mark`).

    Subpackages, and the modules in `without`, are skipped.
    """
    for module in iter_modules(path, f"{package}."):
        if not module.ispkg and module.name.rpartition(".")[2] not in without:
            import_module(module.name)


def offered(
    group: str, noun: str, taken: Collection[str] = (), name: str | None = None
) -> Iterator[tuple[EntryPoint, object]]:
    """Load the entry points of a group, and yield each with its object.

    Args:
        noun: noun for an object of the group, used in the error.
        taken: names in use, which an entry point must not have.
        name: name of the only entry point to load. None loads all entry points.

    Raises:
        EvoError: an object cannot be imported, or its name is in `taken`.
    """
    found = entry_points(group=group)
    for entry in found if name is None else found.select(name=name):
        if entry.name in taken:
            remedy = "uninstall one of the packages"
            raise EvoError(f"the name of the {noun} {entry.name} ({entry.value}) is already used; {remedy}")
        try:
            loaded = entry.load()
        except Exception as error:
            raise EvoError(
                f"the {noun} {entry.name} ({entry.value}) cannot be loaded ({error!r}); update or uninstall its package"
            ) from error
        yield entry, loaded


def unloadable(group: str) -> Iterator[tuple[EntryPoint, Exception]]:
    """Yield each entry point of a group whose object cannot be imported, with the error."""
    for entry in entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - the import runs code of another package
            yield entry, error
