"""Files that outlive a worker (sources, compiler logs, binaries), kept under the digest of their content."""

import hashlib
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.engine.files import write_whole
from db.engine.unavailable import StoreUnavailable
from db.models import ArtefactRow
from evo.errors import InvalidInput, NotFound

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Artefacts:
    """The folder with the bytes. A file appears whole or not at all; its row says how large it is and what it holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, session: Session, digest: str, content: bytes, *, media_type: str, now: datetime) -> ArtefactRow:
        """Store bytes under their own digest; storing them again only makes them young.

        Raises:
            InvalidInput: the digest is not that of the content.
            StoreUnavailable: the folder cannot be written.
        """
        actual = hashlib.sha256(content).hexdigest()
        if actual != digest:
            raise InvalidInput("digest", f"the content's SHA-256 is {actual}: send it to that address")
        if (row := session.get(ArtefactRow, digest)) is not None and self._path(digest).exists():
            row.created_at = now  # somebody relies on it anew: it is not to be collected as an old one
            return row
        try:
            write_whole(self._path(digest), content)
        except OSError as error:
            raise StoreUnavailable(
                f"artefact folder {self.folder}: {error.strerror or error}: free some space or make it writable",
                public="the folder of artefacts cannot be written",
            ) from error
        row = ArtefactRow(digest=digest, size=len(content), media_type=media_type, created_at=now)
        return session.merge(row)

    def get(self, session: Session, digest: str) -> tuple[ArtefactRow, bytes]:
        """The row and the bytes.

        Raises:
            NotFound: nothing was stored under this digest.
        """
        row = session.get(ArtefactRow, digest) if _DIGEST.fullmatch(digest) else None
        if row is None:
            raise NotFound(f"no artefact has the digest {digest}: a digest is the 64 hexadecimal digits of a SHA-256")
        try:
            return row, self._path(digest).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"the file of artefact {digest} was removed from {self.folder}") from error

    def remove(self, digest: str) -> None:
        """Remove a file whose row is no more."""
        self._path(digest).unlink(missing_ok=True)

    def remove_strays(self, session: Session, before_s: float) -> int:
        """Remove files that no row names (drafts, and those of a failed transaction or removal); return how many.

        Args:
            before_s: newer ones (seconds since 1970) may belong to a transaction that is under way.
        """
        removed = 0
        for folder in sorted(each for each in self.folder.glob("??") if each.is_dir()):
            known = session.scalars(select(ArtefactRow.digest).where(ArtefactRow.digest.startswith(folder.name)))
            kept = set(known)
            for path in folder.iterdir():
                with suppress(OSError):
                    if folder.name + path.name not in kept and path.stat().st_mtime < before_s:
                        path.unlink()
                        removed += 1
        return removed

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]
