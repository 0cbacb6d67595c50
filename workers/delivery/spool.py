"""Stores each result in a file until the service has accepted the result. Refused results are kept for inspection."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import structlog
from pydantic import Base64Bytes, TypeAdapter, ValidationError

from evo.trial.results import Report

MOST_ASIDE = 100
"""Maximum number of refused results on disk. The oldest ones are deleted first."""

_LOG = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class PendingResult:
    """A result that was not delivered yet: the report of an attempt, with its artefacts.

    Attributes:
        token: fencing token of the lease.
        contents: contents of the artefacts by digest. In files, they are encoded in base64.
    """

    attempt_id: int
    token: str
    report: Report
    contents: Mapping[str, Base64Bytes] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, str]:
        """Attempt id and token of the lease.

        The id is not unique, because a restored database may assign an id again.
        """
        return self.attempt_id, self.token


class Spool:
    """Folder with one file per undelivered result.

    Files are written atomically, so a killed process leaves no incomplete file.

    Attributes:
        trouble: reason why the last result could not be written to disk, or None.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.trouble: str | None = None

    def keep(self, result: PendingResult) -> None:
        """Write a result to disk. If this fails, log a warning."""
        path = self._path(result)
        part = path.with_suffix(".part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(_adapter().dump_json(result))
            part.replace(path)
        except OSError as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            self.trouble = (
                f"results are kept only in memory, because {self._folder} cannot be written ({error.strerror}); "
                "free disk space, or make the folder writable"
            )
            _LOG.warning("a result is kept only in memory", folder=str(self._folder), reason=error.strerror)
        else:
            self.trouble = None

    def drop(self, result: PendingResult) -> None:
        """Delete a result that the service has accepted or no longer needs."""
        with suppress(OSError):  # if writing failed, there is no file
            self._path(result).unlink(missing_ok=True)

    def set_aside(self, result: PendingResult) -> None:
        """Keep a refused result for inspection, in a file with a different name."""
        self._put_aside(self._path(result))

    def _put_aside(self, path: Path) -> None:
        with suppress(OSError):
            path.replace(path.with_suffix(".refused"))
            aside = sorted(self._folder.glob("*.refused"), key=lambda path: path.stat().st_mtime)
            for old in aside[:-MOST_ASIDE]:
                old.unlink()

    def left(self) -> list[PendingResult]:
        """Return the undelivered results of earlier processes, sorted by attempt id.

        Unreadable and damaged files are left out. Damaged files are kept for inspection like refused results.
        """
        results = []
        for path in self._folder.glob("*.json"):
            try:
                result = _adapter().validate_json(path.read_bytes())
                if path != self._path(result):  # the name is in the format of an earlier version of kernel-evo
                    path.replace(self._path(result))
                results.append(result)
            except OSError as error:  # kept, because the file may be readable at the next start
                _LOG.warning("a stored result cannot be read", path=str(path), reason=error.strerror)
            except ValidationError as error:
                _LOG.warning("a stored result is damaged", path=str(path), reason=str(error).partition("\n")[0])
                self._put_aside(path)
        for part in self._folder.glob("*.part"):
            with suppress(OSError):
                part.unlink()
        return sorted(results, key=lambda result: result.attempt_id)

    def _path(self, result: PendingResult) -> Path:
        token = hashlib.blake2b(result.token.encode(), digest_size=4).hexdigest()
        return self._folder / f"{result.attempt_id}-{token}.json"


@cache
def _adapter() -> TypeAdapter[PendingResult]:
    return TypeAdapter(PendingResult)
