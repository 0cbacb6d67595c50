"""Repository of artefacts (sources, compiler logs, binaries), addressed by the SHA-256 of their content."""

import hashlib
import re
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from db.engine.files import write_whole
from db.engine.unavailable import StoreUnavailable
from db.models import ArtefactRow
from evo.errors import InvalidInput, NotFound

log = structlog.get_logger("artefacts")

AGAIN = "restore it from a backup, or upload the same content again"
"""Remedy for a file that is missing or damaged."""

DIGEST = re.compile(r"[0-9a-f]{64}")


class Artefacts:
    """Folder of artefact files, which are written atomically.

    For each file, a database row stores the size and the media type.

    Attributes:
        refusal: error if the latest attempt to write a file failed, else None.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refusal: StoreUnavailable | None = None

    def put(self, session: Session, digest: str, content: bytes, *, media_type: str, now: datetime) -> ArtefactRow:
        """Store content under its digest, and return its row. If intact content is already stored, only reset its age.

        Raises:
            InvalidInput: the digest does not match the content.
            StoreUnavailable: the folder cannot be written.
        """
        actual = hashlib.sha256(content).hexdigest()
        if actual != digest:
            raise InvalidInput(
                "digest", f"the content has the SHA-256 digest {actual}; send the content with PUT /artefacts/{actual}"
            )
        if (row := session.get(ArtefactRow, digest)) is not None and self._intact(digest):
            row.created_at = now  # the content is used again, so it must not be deleted soon
            return row
        try:
            write_whole(self._path(digest), content)
        except OSError as error:
            self.refusal = StoreUnavailable(
                f"artefact folder {self.folder}: {error.strerror or error}; free some space or make it writable",
                public="the artefact folder cannot be written",
            )
            raise self.refusal from error
        self.refusal = None
        row = row or ArtefactRow(digest=digest)
        row.size, row.media_type, row.created_at = len(content), media_type, now
        session.add(row)
        return row

    def missing(self, session: Session, digests: Collection[str]) -> set[str]:
        """Return the digests whose content is not stored, or is stored in a file of the wrong size."""
        rows = session.execute(select(ArtefactRow.digest, ArtefactRow.size).where(ArtefactRow.digest.in_(digests)))
        return set(digests) - {digest for digest, size in rows if self._size(digest) == size}

    def used_again(self, session: Session, digests: Collection[str], *, before: datetime, now: datetime) -> None:
        """Reset the age of artefacts that a new report names, if they were stored before `before`."""
        aged = update(ArtefactRow).where(ArtefactRow.digest.in_(digests), ArtefactRow.created_at < before)
        session.execute(aged.values(created_at=now).execution_options(synchronize_session=False))

    def any_before(self, session: Session, digests: Collection[str], before: datetime) -> bool:
        """Return True if any of the given artefacts was stored before `before`."""
        aged = select(ArtefactRow.digest).where(ArtefactRow.digest.in_(digests), ArtefactRow.created_at < before)
        return session.scalar(aged.limit(1)) is not None

    def get(self, session: Session, digest: str) -> tuple[ArtefactRow, bytes]:
        """Return the row and the content of an artefact.

        Raises:
            NotFound: no artefact has this digest, or its file is missing or damaged.
            StoreUnavailable: the file cannot be read.
        """
        row = session.get(ArtefactRow, digest) if DIGEST.fullmatch(digest) else None
        if row is None:
            raise NotFound(f"no artefact has the digest {digest}: a digest is the 64 hexadecimal digits of a SHA-256")
        try:
            content = self._path(digest).read_bytes()
        except FileNotFoundError as error:
            log.warning("the file of an artefact is missing", path=str(self._path(digest)))
            raise NotFound(f"the file of artefact {digest} was removed from the store: {AGAIN}") from error
        except OSError as error:
            raise StoreUnavailable(
                f"artefact folder {self.folder}: {error.strerror or error} ({digest}); make it readable",
                public="the artefact folder cannot be read",
            ) from error
        if hashlib.sha256(content).hexdigest() != digest:
            log.warning("the file of an artefact is damaged", path=str(self._path(digest)), size=row.size)
            found = f"{len(content)} of {row.size} bytes" if len(content) != row.size else "its content has changed"
            raise NotFound(f"the file of artefact {digest} is damaged ({found}): {AGAIN}")
        return row, content

    def remove(self, digest: str) -> None:
        """Delete the file of an artefact whose row was deleted."""
        self._path(digest).unlink(missing_ok=True)

    def remove_strays(self, session: Session, before_s: float) -> int:
        """Delete files without a database row, and return their number.

        Crashes and failed transactions leave such files.

        Args:
            before_s: Unix time in seconds. Newer files are kept, because the transaction that adds their row may be
                open.
        """
        removed = 0
        for folder in sorted(each for each in self.folder.glob("??") if each.is_dir()):
            known = session.scalars(select(ArtefactRow.digest).where(ArtefactRow.digest.startswith(folder.name)))
            kept = set(known)
            for path in _files(folder):
                with suppress(OSError):
                    if folder.name + path.name not in kept and path.stat().st_mtime < before_s:
                        path.unlink()
                        removed += 1
        return removed

    def _size(self, digest: str) -> int | None:
        try:
            return self._path(digest).stat().st_size
        except OSError:
            return None

    def _intact(self, digest: str) -> bool:
        try:
            return hashlib.sha256(self._path(digest).read_bytes()).hexdigest() == digest
        except OSError:
            return False

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder. If the folder cannot be listed, the result is empty."""
    with suppress(OSError):
        return list(folder.iterdir())
    return []
