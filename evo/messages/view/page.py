"""Pages of lists, and the result of a clean-up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar


class Deferred:
    """A message whose Pydantic schema is built when it is first read or written.

    Dozens of the service's routes return the same few large views. Building a schema for every route took a fifth of
    the time in which a service starts.
    """

    __pydantic_config__: ClassVar[Mapping[str, bool]] = {"defer_build": True}


@dataclass(frozen=True, kw_only=True)
class Collected:
    """Items that a clean-up removed from database and artefact store.

    Attributes:
        searches_thinned: searches that were kept because they found a champion; only reports on other trials were
            removed.
        workers_deleted: workers silent for the given time, without leases and quarantined devices.
        tokens_deleted: tokens invalid for the given time.
        families_deleted: uploaded versions that no search used and that are not the latest.
        files_deleted: files of the artefact store that no row refers to.
        bytes_kept: bytes of remaining artefacts, if they were counted.
    """

    searches_deleted: int = 0
    searches_thinned: int = 0
    workers_deleted: int = 0
    tokens_deleted: int = 0
    families_deleted: int = 0
    artefacts_deleted: int = 0
    files_deleted: int = 0
    bytes_freed: int = 0
    bytes_kept: int | None = None


Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """One page of a list; `next` is the cursor of the next page, None at the end."""

    items: tuple[Item, ...]
    next: str | None = None
