"""Checks and stores submitted variants, and starts the searches that tune them."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy.orm import Session

from api.families import Catalogue, files_of
from api.scheduler.active import Clock
from api.scheduler.submission import add_predicted, terms_of
from api.schemas import SearchRequest, VariantBody
from db.engine.events import Events
from db.engine.session import Database
from db.engine.signals import WORK, announce
from db.models import SearchRow, VariantRow
from db.repositories.archive import Archive, Registration
from db.repositories.artefacts import Artefacts
from db.repositories.leases import Leases
from db.repositories.variants import FAMILY, Proposals, Variants
from evo.device import DeviceKind, kind_of
from evo.device.estimate.target import aimed_at
from evo.device.requirements import Requirements
from evo.errors import Conflict, InvalidInput
from evo.family import Family
from evo.family.family import VariantNote
from evo.messages.job import Baseline
from evo.search.halving import next_rung
from templates import bundle
from templates.registry import SPEC, package_of
from templates.variant import FOLDER, Proposal, composed, read_proposal

log = structlog.get_logger("conductor")


_MOST_RENAMED = 10
"""Maximum number of additional attempts to store a submission without a name, if the generated name is already used."""


class _NameTaken(Conflict):
    """Raised if another variant of the search has the same name."""


@dataclass(frozen=True, kw_only=True)
class _Composed:
    """A checked variant, converted to a family that can be stored."""

    family: Family
    digest: str
    base_digest: str
    content: bytes
    files: Mapping[str, bytes]
    note: VariantNote
    parents: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class VariantDesk:
    """Accepts variants of searches. Methods may be called from any thread.

    Attributes:
        connected_since: function that returns a time. Workers that sent a request after this time count as connected.
    """

    database: Database
    artefacts: Artefacts
    catalogue: Catalogue
    clock: Clock
    connected_since: Callable[[], datetime]

    def submit(self, search_id: int, body: VariantBody, *, author: str = "") -> tuple[int, int]:
        """Store a variant of a search, and start another search with the same settings to tune the variant.

        Args:
            search_id: id of the search. If this search itself tunes a variant, its base search is used: the search to
                which that variant was submitted.
            author: name of the caller, used as the author if `body` names none.

        Returns:
            The id of the base search, and the number of the variant.

        Raises:
            NotFound: the search or a parent does not exist.
            InvalidInput: a key or file is invalid, or no config is valid.
            Conflict: no connected worker has the device, the name is already used, or equal files were submitted.
        """
        now = self.clock()
        renames = _MOST_RENAMED
        while True:
            with self.database.read() as session:
                base = Archive(session).search(Variants(session).base_id(search_id))
                made = self._composed(session, base, body, author)
            with self.database.write() as session:
                self._store_family(session, made, now)
            try:
                number = self._begin(base.id, made, body, now)
            except _NameTaken:
                if body.document.get("name") or not renames:
                    raise
                renames -= 1  # another submission has used the generated name
                continue
            log.info("variant submitted", search=base.id, variant=number, name=made.note.name)
            return base.id, number

    def _begin(self, base_id: int, made: _Composed, body: VariantBody, now: datetime) -> int:
        with self.database.read() as session:
            base = Archive(session).search(base_id)
            request = _request(base, made.digest)
            row = terms_of(session, request, self.catalogue, self.connected_since())
            add_predicted(session, row, request, self.catalogue)
            row.policy, row.baselines = base.policy, base.baselines
        most = body.trials if body.trials is not None else base.budget.trials
        row.budget = replace(base.budget, trials=next_rung(0, most=most), stagnation=None)
        while (number := self._added(row, base_id, made, body, most=most, now=now)) is None:
            pass  # another variant was submitted in the meantime; compare with its files, too
        return number

    def _added(
        self,
        row: SearchRow,
        base_id: int,
        made: _Composed,
        body: VariantBody,
        *,
        most: int | None,
        now: datetime,
    ) -> int | None:
        """Store a variant and its search, and return the variant's number.

        The files are compared with those of earlier variants before the database is locked for writing, because files
        may be large. If another variant is stored in between, return None. The caller must then call this method again.

        Args:
            most: maximum number of trials of the variant. None if there is no such limit.
        """
        with self.database.read() as session:
            compared = Variants(session).next_number(base_id)
            self._refuse_again(session, base_id, made)
        with self.database.write() as session:
            variants = Variants(session)
            variants.lock(base_id)
            number = variants.next_number(base_id)
            if number != compared:
                return None
            _refuse_name(session, base_id, made.note.name)
            row.created_at, row.notes = now, f"variant {number} of search {base_id}: {made.note.name}"
            session.add(row)
            session.flush()
            variants.add(_variant(made, base_id=base_id, number=number, tuning_id=row.id, most=most, now=now))
            if body.proposal is not None:
                Proposals(session).numbered(base_id, body.proposal).variant = number
            if row.baselines is None:
                Leases(session).queue(row.id, Baseline(), now=now)
            Events(session).search_changed(row.id)
            Events(session).search_changed(base_id)
            announce(session, WORK)
        return number

    def _composed(self, session: Session, base: SearchRow, body: VariantBody, author: str) -> _Composed:
        device = aimed_at(base.device, base.objective)
        if base.device.runs == "recordings":
            raise InvalidInput("search_id", f"search {base.id} replays a recording, which has no source to change")
        variants = Variants(session)
        parents = body.parents or (FAMILY,)
        if sorted(set(parents)) != sorted(parents):
            raise InvalidInput("parents", "contains a variant twice; list every parent once")
        rows = [variants.numbered(base.id, number) for number in parents]
        names = ["family" if row is None else row.name for row in rows]
        number = variants.next_number(base.id)
        proposal = read_proposal(body.document, body.files, f"variant-{number}")
        _refuse_name(session, base.id, proposal.note.name)
        note = replace(proposal.note, parents=names, author=proposal.note.author or author)
        files = self._files(session, base, rows[0], replace(proposal, note=note), device.kind)
        family = _family_of(files, device.kind)
        package = package_of(family, files)
        return _Composed(
            family=family,
            digest=package.digest,
            base_digest=base.family.contract_digest,
            content=bundle.pack(package),
            files=files,
            note=note,
            parents=tuple(parents),
        )

    def _files(
        self, session: Session, base: SearchRow, parent: VariantRow | None, proposal: Proposal, kind: DeviceKind
    ) -> dict[str, bytes]:
        origin = base.family if parent is None else Archive(session).search(parent.tuning_id).family
        contract = files_of(session, self.artefacts, base.family)
        return composed(
            base=contract,
            base_document=base.family.document,
            parent=contract if parent is None else files_of(session, self.artefacts, origin),
            parent_document=origin.document,
            proposal=proposal,
            kind=kind,
        )

    def _refuse_again(self, session: Session, base_id: int, made: _Composed) -> None:
        """Refuse an implementation that another variant already has, even if name, author and idea differ."""
        own, sources = _implementation(made.family.document), _sources(made.files)
        for row in Variants(session).of_search(base_id):
            family = Archive(session).search(row.tuning_id).family
            same = _implementation(family.document) == own
            if same and _sources(files_of(session, self.artefacts, family)) == sources:
                raise Conflict(
                    f"variant {row.number} of search {base_id} has the same files; change your files, or wait for the "
                    "result of that variant"
                )

    def _store_family(self, session: Session, made: _Composed, now: datetime) -> None:
        artefact = hashlib.sha256(made.content).hexdigest()
        self.artefacts.put(session, artefact, made.content, media_type="application/zip", now=now)
        registration = Registration(digest=made.digest, name=made.family.name, document=dict(made.family.document))
        archive = Archive(session)
        archive.add_variant(registration, base_digest=made.base_digest, artefact=artefact, now=now)


def _family_of(files: Mapping[str, bytes], kind: DeviceKind) -> Family:
    """Return the family that the files of a variant form.

    Raises:
        InvalidInput: a key of the document or a source is invalid.
    """
    try:
        family = bundle.family_of(files)
        family.check_new()
        bundle.check_sources(family, files)
        return family
    except InvalidInput as error:
        if error.field == f"{SPEC}: {kind}":
            raise InvalidInput("files", error.reason.removeprefix(f"{FOLDER}/")) from error
        own = error.field.removeprefix(f"family.toml: {kind_of(kind).implementation}.")
        raise InvalidInput(error.field if own == error.field else f"document.{own}", error.reason) from error


def _implementation(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a family's document without the part that describes the variant (name, author, idea)."""
    return {key: value for key, value in document.items() if key != "variant"}


def _sources(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name != SPEC}


def _refuse_name(session: Session, base_id: int, name: str) -> None:
    if name in {"family", *(row.name for row in Variants(session).of_search(base_id))}:
        raise _NameTaken(f"search {base_id} already has a variant {name!r}; choose another name")


def _request(base: SearchRow, digest: str) -> SearchRequest:
    """Return a request for a search with the settings of `base` and the family `digest`."""
    return SearchRequest(
        family_digest=digest,
        problem=dict(base.problem),
        device=base.device.kind if base.device.runs == "nothing" else base.device.model,
        device_uuid=base.device_uuid,
        objective=base.objective,
        strategy=base.strategy,
        seed=base.seed,
        priority=base.priority,
        requirements=base.requirements or Requirements(),
    )


def _variant(
    made: _Composed, *, base_id: int, number: int, tuning_id: int, most: int | None, now: datetime
) -> VariantRow:
    return VariantRow(
        search_id=base_id,
        number=number,
        tuning_id=tuning_id,
        name=made.note.name,
        author=made.note.author,
        idea=made.note.idea,
        parents=made.parents,
        most_trials=most,
        submitted_at=now,
    )
