"""Results on their way to the service: artefacts first, then the report; kept until somebody has taken them."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import structlog
from pydantic import Base64Bytes, TypeAdapter, ValidationError

from evo.client import Client, ServiceError, ServiceUnreachable
from evo.errors import Conflict, InvalidInput, NotFound
from evo.job import Report

_LOG = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """One result.

    Attributes:
        contents: what the report's artefacts refer to, by digest.
    """

    attempt_id: int
    token: str
    report: Report
    contents: Mapping[str, bytes] = field(default_factory=dict)


def digest_of(content: bytes) -> str:
    """What the artefact store calls these bytes."""
    return hashlib.sha256(content).hexdigest()


class Outbox:
    """Delivers parcels. While the service is away they wait in memory, and in a folder for a worker's next life."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._waiting: dict[int, Parcel] = {}
        self._uploaded: set[str] = set()
        self._load()

    def send(self, parcel: Parcel) -> bool:
        """Deliver a parcel now, or keep it; True when it was taken or refused for good."""
        try:
            self._deliver(parcel)
        except (ServiceUnreachable, ServiceError) as error:
            _LOG.warning("result.kept", attempt=parcel.attempt_id, reason=str(error))
            self._keep(parcel)
            return False
        except (Conflict, NotFound) as error:
            _LOG.info("result.stale", attempt=parcel.attempt_id, reason=str(error))
        except InvalidInput as error:
            _LOG.error("result.refused", attempt=parcel.attempt_id, reason=str(error))
        self._forget(parcel)
        return True

    def upload(self, contents: Mapping[str, bytes]) -> None:
        """Store what a report will refer to, each once; may be called from any thread."""
        for digest, content in contents.items():
            if digest not in self._uploaded:
                self._client.put_artefact(digest, content)
                self._uploaded.add(digest)

    def flush(self) -> bool:
        """Try again what waits, oldest first; True when nothing does any more."""
        return all(self.send(parcel) for parcel in list(self._waiting.values()))

    def _deliver(self, parcel: Parcel) -> None:
        self.upload(parcel.contents)
        self._client.report(parcel.attempt_id, parcel.token, parcel.report)

    def _keep(self, parcel: Parcel) -> None:
        if parcel.attempt_id in self._waiting:
            return
        self._waiting[parcel.attempt_id] = parcel
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._path(parcel).write_bytes(_adapter().dump_json(_Stored.of(parcel)))
        except OSError as error:
            _LOG.warning("result.only_in_memory", folder=str(self._folder), reason=error.strerror)

    def _forget(self, parcel: Parcel) -> None:
        if self._waiting.pop(parcel.attempt_id, None):
            with suppress(OSError):  # it never reached an unwritable folder
                self._path(parcel).unlink(missing_ok=True)

    def _load(self) -> None:
        for path in sorted(self._folder.glob("*.json")):
            try:
                parcel = _adapter().validate_json(path.read_bytes()).parcel()
            except (OSError, ValidationError):
                path.unlink(missing_ok=True)  # cut off while it was written
            else:
                self._waiting[parcel.attempt_id] = parcel

    def _path(self, parcel: Parcel) -> Path:
        return self._folder / f"{parcel.attempt_id}.json"


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """A parcel as JSON can hold it."""

    attempt_id: int
    token: str
    report: Report
    contents: Mapping[str, Base64Bytes]

    @classmethod
    def of(cls, parcel: Parcel) -> "_Stored":
        return cls(**vars(parcel))

    def parcel(self) -> Parcel:
        return Parcel(**vars(self))


@cache
def _adapter() -> TypeAdapter[_Stored]:
    return TypeAdapter(_Stored)
