"""Discovers extensions, e.g. strategies and device kinds, in kernel-evo's and in other installed packages."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import TypeVar, cast

from evo.errors import EvoError

_Marked = TypeVar("_Marked")
_Own = TypeVar("_Own")


@dataclass(frozen=True)
class Group:
    """A group of entry points through which other packages extend kernel-evo.

    Attributes:
        name: name of the group in the metadata of packages.
        noun: noun for an object of the group, used in messages.
    """

    name: str
    noun: str


KINDS = Group("kernel_evo.kinds", "device kind")
BACKENDS = Group("kernel_evo.backends", "driver of the device kind")
STRATEGIES = Group("kernel_evo.strategies", "strategy")
PROPOSERS = Group("kernel_evo.proposers", "proposer")
GROUPS = (KINDS, BACKENDS, STRATEGIES, PROPOSERS)
"""All groups. The name of an entry point is the name of the kind, strategy or proposer."""


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


def offered(group: Group, taken: Collection[str] = (), name: str | None = None) -> Iterator[tuple[EntryPoint, object]]:
    """Load the entry points of a group, and yield each with its object.

    Args:
        taken: names in use, which an entry point must not have.
        name: name of the only entry point to load. None loads all entry points.

    Raises:
        EvoError: an object cannot be imported, or its name is in `taken`.
    """
    noun, found = group.noun, entry_points(group=group.name)
    for entry in found if name is None else found.select(name=name):
        if entry.name in taken:
            remedy = "uninstall one of the packages"
            raise EvoError(f"the name of the {noun} {entry.name} ({entry.value}) is already used; {remedy}")
        loaded, error = _loaded(entry)
        if error is not None:
            raise EvoError(
                f"the {noun} {entry.name} ({entry.value}) cannot be loaded ({error!r}); update or uninstall its package"
            ) from error
        yield entry, loaded


def unloadable(group: Group) -> Iterator[tuple[EntryPoint, Exception]]:
    """Yield each entry point of a group whose object cannot be imported, with the error."""
    for entry in entry_points(group=group.name):
        _, error = _loaded(entry)
        if error is not None:
            yield entry, error


def _loaded(entry: EntryPoint) -> tuple[object, Exception | None]:
    """Return the object of an entry point and None or, if its import fails, None and the error."""
    try:
        return entry.load(), None
    except Exception as error:  # noqa: BLE001 - the import runs code of another package
        return None, error
