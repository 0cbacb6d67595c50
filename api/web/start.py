"""What the form that starts a search offers, and what it makes of what was typed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from api.catalogue import parsed
from api.conductor import CONNECTED_LEASES
from api.deps import Service
from api.errors import wrong_fields
from api.schemas import SearchRequest
from db.archive import Archive
from db.fleet import Fleet
from db.models import DeviceRow
from evo.errors import Conflict, InvalidInput
from evo.family import Family
from evo.policy import POLICIES
from evo.problem import BOOLS, Field
from evo.strategy import STRATEGIES
from templates import registry

PROBLEM = "problem."
NUMBERS = ("seed", "objective.threads", "budget.trials", "budget.minutes", "budget.stagnation")
USUAL: Mapping[str, str] = {
    "device": "auto",
    "strategy": "portfolio",
    "policy": "default",
    "seed": "0",
    "budget.minutes": "10",
    "objective.cache": "hot",
    "objective.threads": "1",
}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A family that can be searched; `location` as the service registers it."""

    name: str
    title: str
    digest: str
    document: Mapping[str, Any]
    location: str | None


@dataclass(frozen=True, kw_only=True)
class StartForm:
    """The form with what was typed into it.

    Attributes:
        fields: of the chosen family's problems.
        devices: at hand, that the family runs on, each as (value, words).
        typed: field → text; what nobody typed has its usual value.
        wrong: field → what is wrong with it. Under ``form`` what belongs to no field.
    """

    families: tuple[Candidate, ...]
    chosen: Candidate | None = None
    fields: tuple[Field, ...] = ()
    kinds: tuple[str, ...] = ()
    devices: tuple[tuple[str, str], ...] = ()
    typed: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)
    strategies: tuple[str, ...] = tuple(STRATEGIES)
    policies: tuple[str, ...] = tuple(POLICIES)

    def value(self, name: str) -> str:
        return self.typed.get(name, USUAL.get(name, ""))

    def problem(self, each: Field) -> str:
        """What stands in the field of a problem."""
        usual = "" if each.default is None else str(each.default)
        return self.typed.get(PROBLEM + each.name, usual.lower() if isinstance(each.default, bool) else usual)

    @staticmethod
    def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
        """Options whose value is their name."""
        return [(name, name) for name in names]

    def truth(self, each: Field) -> bool:
        """Whether the box of a field is ticked."""
        return BOOLS.get(self.problem(each), False)


def candidates(session: Session) -> tuple[Candidate, ...]:
    """Families by name: those of this installation, and what else was registered."""
    own = {
        package.family.name: Candidate(
            name=package.family.name,
            title=package.family.title,
            digest=package.digest,
            document=package.family.document,
            location=package.location,
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


def form_of(
    session: Session, service: Service, typed: Mapping[str, str], wrong: Mapping[str, str] | None = None
) -> StartForm:
    """The form as it is shown, for the family that `typed` names, or without its fields."""
    families = candidates(session)
    chosen = next((each for each in families if each.name == typed.get("family")), None)
    if chosen is None:
        return StartForm(families=families, typed=typed, wrong=wrong or {})
    family = parsed(chosen.document)
    since = service.conductor.clock() - timedelta(seconds=CONNECTED_LEASES * service.conductor.lease_s)
    return StartForm(
        families=families,
        chosen=chosen,
        fields=family.fields,
        kinds=tuple(family.implementations),
        devices=tuple(_devices(family, Fleet(session).devices(since))),
        typed=typed,
        wrong=wrong or {},
    )


def _devices(family: Family, offered: Sequence[DeviceRow]) -> Iterator[tuple[str, str]]:
    """Every model once, however many workers have one."""
    fitting = {row.model: row.kind for row in offered if row.kind in family.implementations}
    for model, kind in fitting.items():
        yield model, f"{model} ({kind})"


def start(service: Service, typed: Mapping[str, str]) -> int:
    """Start the search; returns its id.

    Raises:
        InvalidInput: names the field of the form.
    """
    with service.database.read() as session:
        chosen = next((each for each in candidates(session) if each.name == typed.get("family")), None)
    if chosen is None:
        raise InvalidInput("family", "is missing: choose one")
    _register(service, chosen)
    try:
        request = SearchRequest.model_validate(_terms(chosen, typed))
    except ValidationError as error:
        first = wrong_fields(error.errors())[0]
        raise InvalidInput(first["field"], first["reason"]) from error
    try:
        return service.conductor.submit(request)
    except Conflict as error:
        raise InvalidInput("device", str(error)) from error


def _register(service: Service, chosen: Candidate) -> None:
    with service.database.write() as session:
        Archive(session).register_family(
            digest=chosen.digest,
            name=chosen.name,
            document=dict(chosen.document),
            location=chosen.location,
            now=service.conductor.clock(),
        )


def _terms(chosen: Candidate, typed: Mapping[str, str]) -> dict[str, Any]:
    """The body that REST would get; what was left empty is left out, but not of the problem, which is nothing to guess.

    Raises:
        InvalidInput: a field of the problem is empty.
    """
    terms: dict[str, Any] = {"family_digest": chosen.digest, "problem": {}, "budget": {}, "objective": {}}
    known = {each.name: each for each in parsed(chosen.document).fields}
    for name, each in known.items():
        if each.type == "bool":
            terms["problem"][name] = typed.get(PROBLEM + name, "false")
        elif not typed.get(PROBLEM + name, "given").strip():
            raise InvalidInput(PROBLEM + name, f"is empty: give a value, such as {each.default}")
    for name, text in typed.items():
        group, _, inner = name.partition(".")
        if not text.strip() or name in ("family", "csrf") or (inner in known and known[inner].type == "bool"):
            continue
        value: object = _number(text) if name in NUMBERS else text.strip()
        if inner and group in terms:
            terms[group][inner] = value
        elif not inner:
            terms[name] = value
    return terms


def _number(text: str) -> object:
    """A number where it is one; else the text, for the check to refuse in its own words."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
