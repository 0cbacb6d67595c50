"""Families that the form offers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.dependencies import Service
from api.families import parsed
from db.repositories.archive import Archive
from evo.family import Family
from templates import registry


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A family that can be searched.

    Attributes:
        location: location of the family's files for workers: a path, or the reference of an uploaded bundle. None for a
            built-in family.
        installed: the family as installed with the service. None for a family that is only registered.
    """

    name: str
    title: str
    digest: str
    document: Mapping[str, Any]
    location: str | None
    installed: Family | None = None

    @property
    def family(self) -> Family:
        """The family, read from this installation if the installation contains it, else from its document.

        Raises:
            InvalidInput: a different version of kernel-evo registered the document, and this version cannot read the
                document.
        """
        return self.installed or parsed(self.document)

    def register(self, service: Service) -> None:
        """Register the family, so that it can be searched.

        If the family is registered already, it becomes the latest version.
        """
        with service.database.write() as session:
            Archive(session).register_family(
                digest=self.digest,
                name=self.name,
                document=dict(self.document),
                location=self.location,
                now=service.conductor.clock(),
            )


def candidates(session: Session) -> tuple[Candidate, ...]:
    """Return the families of this installation and the registered families, by name."""
    own = {
        package.family.name: Candidate(
            name=package.family.name,
            title=package.family.title,
            digest=package.digest,
            document=package.family.document,
            location=package.location,
            installed=package.family,
        )
        for package in registry.builtin()
    }
    registered = {
        row.name: Candidate(
            name=row.name,
            title=str(row.document.get("title", row.name)),
            digest=row.digest,
            document=row.document,
            location=row.location,
        )
        for row in Archive(session).families()
    }
    return tuple(each for _, each in sorted((registered | own).items()))


def candidate(session: Session, name: str | None) -> Candidate | None:
    """Return the family with this name, or None if there is none."""
    return next((each for each in candidates(session) if each.name == name), None)
