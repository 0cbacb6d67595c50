"""Loads registered families, their files and their spaces, and registers the built-in families."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy.orm import Session

from db.engine.session import Database, StoreUnavailable
from db.models import FamilyRow, SearchRow
from db.repositories.archive import BUNDLE, Archive, Registration
from db.repositories.artefacts import Artefacts
from evo.device.estimate.target import aimed_at
from evo.errors import Conflict, EvoError
from evo.family import Family
from evo.lru_cache import LruCache
from evo.promotion.goal import Goal
from evo.space import Space
from templates import bundle, registry

KEPT_FAMILIES = 256
KEPT_SPACES = 8
"""Number of spaces kept in memory. Enumerating the valid configs of a large space takes a second."""


class _Entry:
    """Cache entry of a space. `space` is None until a thread that holds `lock` has enumerated the space."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.space: Space | None = None


class Catalogue:
    """Cache of families and spaces. Thread-safe. Different spaces can be enumerated at the same time."""

    def __init__(self) -> None:
        self._families: LruCache[str, Family] = LruCache(KEPT_FAMILIES)
        self._spaces: LruCache[tuple[str, ...], _Entry] = LruCache(KEPT_SPACES)
        self._lock = threading.Lock()

    def family(self, row: FamilyRow) -> Family:
        with self._lock:
            return self._families.get(row.digest, lambda: parsed(row.document))

    def keep(self, digest: str, family: Family) -> None:
        """Add a parsed family to the cache under its digest, so that its document is not parsed again."""
        with self._lock:
            self._families.get(digest, lambda: family)

    def space(self, search: SearchRow) -> Space:
        """Return the space of a search. `search` may be a row that is not stored yet.

        Raises:
            EmptySpace: no config is valid.
        """
        family = self.family(search.family)
        key = (search.family.digest, search.problem_key, repr(search.device), search.objective.key)
        with self._lock:
            entry = self._spaces.get(key, _Entry)
        with entry.lock:
            if entry.space is None:
                device = aimed_at(search.device, search.objective)
                entry.space = family.space(search.problem, device, search.objective)
            return entry.space


def goal_of(search: SearchRow) -> Goal | None:
    """Return the metric that a search optimises, or None if the search minimises the time.

    `search` may be a row that is not stored yet.

    Raises:
        InvalidInput: the metric is not a valid expression.
    """
    flops, moved = _work(search, search.objective.metric)
    return Goal.of(search.objective, search.problem, flops=flops, moved=moved)


def second_goal_of(search: SearchRow) -> Goal | None:
    """Return the second objective of a search, or None if the search has one objective.

    `search` may be a row that is not stored yet.

    Raises:
        InvalidInput: the second objective is not a valid expression, or equals the first objective.
    """
    flops, moved = _work(search, search.objective.second_metric)
    return Goal.second(search.objective, search.problem, flops=flops, moved=moved)


def _work(search: SearchRow, metric: str | None) -> tuple[float | None, float | None]:
    """Return the numbers of operations and bytes of one call.

    The result is (None, None) if `metric` is None, or if the family has no ``[work]`` table.
    """
    work = None if metric is None else parsed(search.family.document).work(search.problem)
    return (None, None) if work is None else (work.flops, work.bytes)


def parsed(document: Mapping[str, Any]) -> Family:
    """Return the family that a document describes.

    Raises:
        InvalidInput: a field of the document is invalid.
    """
    return Family.from_document(dict(document), where="document")


def files_of(session: Session, artefacts: Artefacts, family: FamilyRow) -> dict[str, bytes]:
    """Return the files of a family by name, without the header files that all families share.

    Raises:
        Conflict: the family was not uploaded, and its files on this machine are missing or have changed.
        NotFound: the family was uploaded, and its files in the artefact store are missing or damaged.
    """
    if (family.location or "").startswith(BUNDLE):
        _, content = artefacts.get(session, (family.location or "").removeprefix(BUNDLE))
        return bundle.unpack(content)
    try:
        package = registry.find(family.location or family.name)
    except EvoError as error:
        raise Conflict(f"the service cannot read the files of family {family.name}: {error}") from error
    if package.digest != family.digest:
        raise Conflict(f"family {family.name} has changed on this machine since the search began; start a new search")
    return registry.own_files(package)


log = structlog.get_logger("families")


class BuiltinFamilies:
    """Registers built-in families when a request first needs them, and again after their files change.

    The families are not registered when the service starts, because reading them takes a second. Several threads may
    use one object.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._registered: frozenset[str] = frozenset()

    def ensure(self, name: str | None = None) -> None:
        """Register the built-in families that are not in the database.

        Args:
            name: family name from a request, or None. If it is the name of a built-in recorded space, the family of
                this space is also registered. Other recorded spaces are not registered, because that would take
                seconds.

        Raises:
            StoreUnavailable: the database accepts no writes.
        """
        packages = registry.builtin()
        if name in registry.recordings():
            packages = [*packages, registry.find(name)]
        digests = frozenset(package.digest for package in packages)
        with self._lock:
            if digests <= self._registered:
                return
            with self._database.write() as session:
                Archive(session).register_missing(
                    [
                        Registration(digest=each.digest, name=each.family.name, document=dict(each.family.document))
                        for each in packages
                    ],
                    now=self._clock(),
                )
            self._registered |= digests

    def try_to_ensure(self, name: str | None = None) -> None:
        """Register missing built-in families, like `ensure`, before a read.

        If the database accepts no writes, a warning is logged, and no error is raised.
        """
        try:
            self.ensure(name)
        except StoreUnavailable as error:
            log.warning("the built-in families could not be registered", reason=str(error))
