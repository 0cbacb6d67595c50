"""Content of the form that starts a search, including the errors in refused input."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.orm import Session

from api.dependencies import Service
from api.web.pages.start.candidate import Candidate, candidates
from api.web.pages.start.entry import ENTRIES, GROUPS, Entry, Options
from api.web.pages.start.terms import PROBLEM
from db.models import DeviceRow
from db.repositories.fleet import Fleet
from evo.device import kind_of
from evo.family import Family
from evo.family.problem import BOOLS, Field


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An error in the input. `field` is None if the error does not belong to a field."""

    field: str | None
    label: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class StartForm:
    """The form with the user's input.

    Attributes:
        chosen: the chosen family. None if the user has not chosen a known family.
        fields: problem fields of the chosen family.
        groups: all fields except the problem fields, by heading.
        devices: True if a connected device, other than one that only estimates times, supports the family.
        kinds: device kinds that the family supports.
        typed: entered text by field. Fields without entered text have their defaults.
        wrong: description of the fault by field.
    """

    families: tuple[Candidate, ...]
    chosen: Candidate | None = None
    fields: tuple[Field, ...] = ()
    groups: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    devices: bool = False
    kinds: tuple[str, ...] = ()
    typed: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def filled(self) -> bool:
        """True if the user entered text in the form or in the URL."""
        return any(name != "family" for name in self.typed)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All faults in the order of the fields. Faults that belong to no field come last."""
        labels = {PROBLEM + each.name: each.name for each in self.fields}
        labels |= {name: entry.label for name, entry in ENTRIES.items()}
        here = [
            Fault(field=name, label=label, reason=self.wrong[name])
            for name, label in labels.items()
            if name in self.wrong
        ]
        others = [
            Fault(field=None, label=name.capitalize(), reason=reason)
            for name, reason in self.wrong.items()
            if name not in labels
        ]
        return (*here, *others)

    @property
    def first(self) -> str | None:
        """Name of the first invalid field, which gets the focus. None if no field is invalid."""
        return next((fault.field for fault in self.faults if fault.field), None)

    def value(self, entry: Entry) -> str:
        return self.typed.get(entry.name, entry.usual)

    def options(self, entry: Entry) -> Options:
        """Return the options of a field. The user's value is always included, even if it is no longer an option."""
        offered, typed = dict(entry.options or {}), self.value(entry)
        return offered if typed in offered else {**offered, typed: typed}

    def problem(self, each: Field) -> str:
        """Return the text of a problem field: the entered text, or else its default."""
        usual = "" if each.default is None else str(each.default)
        return self.typed.get(PROBLEM + each.name, usual.lower() if isinstance(each.default, bool) else usual)

    def truth(self, each: Field) -> bool:
        """Return True if the box of a boolean problem field is ticked."""
        return BOOLS.get(self.problem(each), False)


def form_of(
    session: Session, service: Service, typed: Mapping[str, str], wrong: Mapping[str, str] | None = None
) -> StartForm:
    """Return the form for the family in `typed`. Without a known family, the form has no problem fields.

    Args:
        typed: entered text by field.
        wrong: description of the fault by field. None if the input was not checked.
    """
    families = candidates(session)
    chosen = next((each for each in families if each.name == typed.get("family")), None)
    if chosen is None:
        return StartForm(families=families, typed=typed, wrong=wrong or {})
    family = chosen.family
    offered = [row for row in Fleet(session).devices(service.conductor.connected_since()) if _runs_on(family, row)]
    options = {"device": dict(_models(offered)), "device_uuid": dict(_units(offered))}
    groups = {
        title: tuple(replace(entry, options=options.get(entry.name, entry.options)) for entry in entries)
        for title, entries in GROUPS.items()
    }
    return StartForm(
        families=families,
        chosen=chosen,
        fields=family.fields,
        groups=groups,
        devices=any(kind_of(row.kind).runs != "nothing" for row in offered),
        kinds=tuple(family.implementations),
        typed=typed,
        wrong=wrong or {},
    )


def _runs_on(family: Family, row: DeviceRow) -> bool:
    """Return True if the family supports the device. Estimates need a CUDA implementation."""
    return kind_of(row.kind).implementation in family.implementations


def _models(offered: Sequence[DeviceRow]) -> Iterator[tuple[str, str]]:
    yield "auto", "the best available"
    for row in offered:
        estimate = kind_of(row.kind).runs == "nothing"
        yield (row.kind, "an estimate; no kernel is run") if estimate else (row.model, f"{row.model} ({row.kind})")


def _units(offered: Sequence[DeviceRow]) -> Iterator[tuple[str, str]]:
    yield "", "any of the model"
    for row in offered:
        if kind_of(row.kind).runs != "nothing":
            yield row.uuid, f"{row.model}, {row.uuid}"
