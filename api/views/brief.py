"""Builds the brief for proposers of variants from the database rows of a search."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from api.views.variant import variant_views
from db.models import SearchRow
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from evo.device import Device, kind_of
from evo.device.estimate.target import aimed_at
from evo.family import Family
from evo.family.description import describe_operand, signature
from evo.messages.view import BriefView, TriedView, VariantSource, VariantView
from evo.search.unexplored import unexplored
from evo.trial.outcome import Estimated, Measured

SourceOf = Callable[[int], VariantSource]
"""Function that returns the source of a variant, given its number."""

SHOWN_FAILURES = 8


def brief_view(session: Session, base: SearchRow, family: Family, source_of: SourceOf, *, model: str = "") -> BriefView:
    """Return the brief for proposers of variants of a search.

    Args:
        source_of: function that returns the source of a variant, given its number.
        model: source of the PyTorch model whose outputs the kernel computes; empty if the family has none.
    """
    device = aimed_at(base.device, base.objective)
    implementation = family.implementation(device.kind)
    default = base.space.default or family.space(base.problem, device, base.objective).default()
    operands = family.candidate(default, base.problem, device, base.objective).operands
    views = variant_views(session, base.id)
    timed = sorted((view for view in views if view.best is not None), key=lambda view: view.rank)
    failed = [view for view in reversed(views) if view.best is None and view.failures]
    tried = tuple(_tried(session, view, source_of(view.number)) for view in timed)
    cases = [each.case for each in family.case_problems(base.problem, device.kind) if each.problem is not None]
    sources = [text for each in tried for text in each.source.files.values()]
    compiled = {mechanism for view in timed for mechanism in view.mechanisms}
    baselines = {name: each.median_us for name, each in sorted(base.timed_baselines.items())}
    return BriefView(
        search_id=base.id,
        family=family.name,
        title=family.title,
        description=family.description,
        kind=device.kind,
        problem=base.problem,
        signature=signature(implementation.entry, operands, cuda=kind_of(device.kind).sources == "cuda"),
        entry=implementation.entry,
        arguments=tuple(map(describe_operand, operands)),
        cases=tuple(f"{case.name}: inputs {case.inputs}" for case in cases if not case.hidden),
        hidden_cases=sum(case.hidden for case in cases),
        objective="; second objective: ".join([base.objective.key, *base.objective.goals[1:]]),
        device=_facts(device),
        floor_us=None if base.roofline is None else base.roofline.floor_us,
        bound=None if base.roofline is None else base.roofline.bound,
        baselines=baselines,
        tried=tried,
        failed=tuple(_tried(session, view, source_of(view.number)) for view in failed[:SHOWN_FAILURES]),
        unexplored=unexplored(sources, compiled, cuda=kind_of(device.kind).sources == "cuda"),
        model=model,
    )


def _facts(device: Device) -> Mapping[str, Any]:
    """Return the properties of a device that a proposer needs.

    The machine, the serial number and the software are left out.
    """
    ceilings = device.ceilings
    facts: dict[str, Any] = {"model": device.model, "architecture": device.architecture}
    facts |= dict(sorted(device.limits.items()))
    if ceilings is not None:
        facts |= {f"{dtype} operations per second": rate for dtype, rate in sorted(ceilings.flops_per_s.items())}
        facts |= {"bytes per second": ceilings.bytes_per_s}
    return facts


def _tried(session: Session, view: VariantView, source: VariantSource) -> TriedView:
    if view.best is None:
        return TriedView(view=view, source=source, resources={}, profile={})
    trial = Archive(session).numbered(view.tuning_id, view.best.number)
    resources = trial.outcome.resources if isinstance(trial.outcome, Measured | Estimated) else {}
    return TriedView(
        view=view,
        source=source,
        config=view.best.config,
        resources=dict(sorted(resources.items())),
        profile=dict(sorted(Champions(session).counters(trial).items())),
    )
