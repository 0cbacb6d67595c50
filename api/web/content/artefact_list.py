"""Prepares the files of a trial or a confirmation for pages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.web.content.listing import LANGUAGES, Listing, listing
from db.repositories.artefacts import Artefacts
from db.repositories.leases import Leases
from evo.device import DeviceKind, kind_of
from evo.errors import NotFound
from evo.messages.view import TrialView
from evo.trial.results import ConfirmReport, EvaluateReport

SOURCE, LOG = "source", "compiler.log"
MOST_BYTES = 4 << 20
"""Maximum size in bytes of a file that a page shows. Larger files can only be downloaded."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One artefact as a named file.

    Attributes:
        text: content of the file. None if the file is binary or too large to show.
        missing: True if the artefact store no longer has the file.
    """

    name: str
    digest: str
    size: int = 0
    text: str | None = None
    language: str = "text"
    ending: str = ""
    missing: bool = False

    @property
    def listing(self) -> Listing | None:
        return None if self.text is None else listing(self.text, self.language)

    @property
    def filename(self) -> str:
        """File name for downloads."""
        ending = self.ending or ("bin" if self.text is None else "txt")
        return self.name if "." in self.name else f"{self.name}.{ending}"


@dataclass(frozen=True, kw_only=True)
class TrialFiles:
    """All files of one trial."""

    files: Mapping[str, File]

    @property
    def source(self) -> File | None:
        return self.files.get(SOURCE)

    @property
    def log(self) -> File | None:
        return self.files.get(LOG)

    def about(self, *words: str) -> tuple[File, ...]:
        """Return the files whose names begin with one of the given prefixes, e.g. ``profile``."""
        return tuple(file for name, file in self.files.items() if name.startswith(words))

    @property
    def others(self) -> tuple[File, ...]:
        return tuple(file for name, file in self.files.items() if name not in (SOURCE, LOG))


class ArtefactReader:
    """Reads artefacts from the store. Removed artefacts are listed as missing."""

    def __init__(self, session: Session, store: Artefacts) -> None:
        self._session = session
        self._store = store

    def of_trial(self, trial: TrialView, kind: DeviceKind) -> TrialFiles:
        """Return the files of a trial's evaluation and confirmations.

        If several files have the same name, the file of the latest evaluation is used. If none of them belongs to an
        evaluation, the latest file is used.

        Args:
            kind: device kind, which determines the language of the source.
        """
        reports = self.reports(trial)
        named = {name: digest for report in reports for name, digest in report.artefacts.items()}
        return self.of(named | dict(trial.artefacts), kind)

    def reports(self, trial: TrialView) -> list[EvaluateReport | ConfirmReport]:
        """Return the reports of a trial's attempts, oldest first."""
        attempts = Leases(self._session).attempts_of_trial(trial.id)
        return [row.result for row in attempts if isinstance(row.result, EvaluateReport | ConfirmReport)]

    def of(self, named: Mapping[str, str], kind: DeviceKind) -> TrialFiles:
        """Return the files with the given names and digests, source and compiler log first."""
        return TrialFiles(files={name: self._file(name, digest, kind) for name, digest in _ordered(named)})

    def _file(self, name: str, digest: str, kind: DeviceKind) -> File:
        try:
            row, content = self._store.get(self._session, digest)
        except NotFound:
            return File(name=name, digest=digest, missing=True)
        language = LANGUAGES[kind_of(kind).sources] if name == SOURCE else "text"
        ending = _ending(name, kind)
        return File(name=name, digest=digest, size=row.size, text=text_of(content), language=language, ending=ending)


def _ending(name: str, kind: DeviceKind) -> str:
    """Return the file name extension for an artefact. Empty if the artefact's name already has one."""
    source, binary = kind_of(kind).suffixes
    return {SOURCE: source, "binary": binary, "headers": "zip"}.get(name, "")


def _ordered(named: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    first = (SOURCE, LOG)
    return sorted(named.items(), key=lambda item: (first.index(item[0]) if item[0] in first else len(first), item[0]))


def text_of(content: bytes) -> str | None:
    """Return the content as text, or None if it is binary or too large to show."""
    if len(content) > MOST_BYTES or b"\0" in content[:4096]:
        return None
    return content.decode(errors="replace")
