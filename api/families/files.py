"""Reads the files of a registered family from the artefact store, or from this machine."""

from sqlalchemy.orm import Session

from db.models import FamilyRow
from db.repositories.archive import BUNDLE
from db.repositories.artefacts import Artefacts
from evo.errors import Conflict, EvoError
from templates import bundle, registry


def files_of(session: Session, artefacts: Artefacts, family: FamilyRow) -> dict[str, bytes]:
    """Return the files of a family by name, without the header files that all families share.

    Raises:
        Conflict: the family was not uploaded, and its files on this machine are missing or have changed.
    """
    if (family.location or "").startswith(BUNDLE):
        _, content = artefacts.get(session, (family.location or "").removeprefix(BUNDLE))
        return bundle.unpack(content)
    try:
        package = registry.find(family.location or family.name)
    except EvoError as error:
        raise Conflict(f"the files of family {family.name} cannot be read by the service: {error}") from error
    if package.digest != family.digest:
        raise Conflict(f"family {family.name} has changed on this machine since the search began: start a new search")
    return registry.own_files(package)
