"""Checks all fields of a request for a search, and converts the request to a database row."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from api.families import Catalogue, goal_of, second_goal_of
from api.scheduler.active import beginning
from api.schemas import SearchRequest, WarmStart
from db.models import ChampionRow, DeviceRow, SearchRow, SpaceSize
from db.queries.transfer import earlier_results
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from db.repositories.fleet import Fleet
from evo import strategy
from evo.device import Device, kind_of, kinds, lacking_meter
from evo.device.estimate.roofline import Roofline
from evo.device.estimate.target import aimed_at, compared_with, known, shown_roofline
from evo.device.requirements import Requirements
from evo.errors import Conflict, InvalidInput, NotFound
from evo.family import Family
from evo.family.problem import Problem, distance
from evo.messages.view import WarmStartView
from evo.promotion.policy import policy_from
from evo.space import Space
from evo.strategy.parts.transfer import NEAREST, predicted
from evo.text.suggestion import closest, unknown
from evo.text.wording import count_text
from evo.trial import Config
from evo.trial.objective import Objective
from templates import registry
from templates.recorded import shipped

MAX_WARM_STARTS = 5
MAX_PREDICTED = 5
"""Maximum number of configs predicted from other problems. The strategy always tries two of these configs, and decides
about the others."""

MAX_IMPORTED = 20
"""Maximum number of recorded configs that a search tries first. The best config of a recording may not be the best one
in this search, so several are tried.
"""

PDL_SINCE = 90
"""Lowest compute capability with programmatic dependent launch, multiplied by ten."""


class Unavailable(Conflict):
    """Raised if no connected worker has a suitable device. `field` is the request field that cannot be satisfied."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def terms_of(session: Session, request: SearchRequest, catalogue: Catalogue, connected_since: datetime) -> SearchRow:
    """Check a request for a search, and return the database row of the new search, without an id.

    Raises:
        NotFound: the family is not registered.
        InvalidInput: a field of the request is invalid, or the space is empty.
        Unavailable: no connected worker has a suitable device.
    """
    family_row = Archive(session).family_named(request.wanted_family, registry.builtin_digests())
    family = catalogue.family(family_row)
    _check_chosen(request)
    _check_problem(family, request)
    policy = policy_from(request.policy)
    if policy.untrusted == "sandbox":
        required = replace(request.requirements, sandbox=True)
        request = request.model_copy(update={"requirements": required})
    device = choose_device(family, request, Fleet(session).devices(connected_since))
    _check_threads(request.objective, device)
    objective = family.terms(aimed(request.objective, device))
    problem = family.problem(request.problem, aimed_at(device, objective).kind)
    for each in (device, aimed_at(device, objective)):
        _check_launch(objective, each, family)
        family.check_device(problem, each)
    _check_work(device, family, problem)
    row = SearchRow(
        family=family_row,
        problem=problem,
        problem_key=family.problem_key(problem),
        device=replace(device, note=family.note(problem, compared_with(device, objective))),
        device_uuid=request.device_uuid,
        objective=objective,
        strategy=request.strategy,
        seed=request.seed,
        budget=request.budget,
        policy=policy,
        state="running",
        active_s=0.0,
        priority=request.priority,
        notes=request.notes,
        requirements=request.requirements,
    )
    space = catalogue.space(row)
    row.space = SpaceSize(product_size=space.product_size, valid_count=space.valid_count, default=space.default())
    row.roofline = _roofline(family, row)
    compiled = kind_of(aimed_at(device, objective).kind).sources == "cuda"
    for goal in filter(None, (goal_of(row), second_goal_of(row))):
        goal.check(space.names, compiled=compiled, unmetered=lacking_meter(device))
    if request.from_default:
        row.warm_starts = [space.default()]
    else:
        row.warm_starts = warm_starts(space, row, family, Champions(session).champions(family=family.name))
    if request.warm_start is not None:
        row.warm_start, recorded = imported(space, request.warm_start)
        row.warm_starts = [*recorded, *row.warm_starts]
    strategy.build(request.strategy, beginning(space, row))
    return row


def _check_chosen(request: SearchRequest) -> None:
    """Refuse an unknown strategy or target GPU. This check needs no connected worker.

    Raises:
        InvalidInput: the strategy or the target GPU is unknown.
    """
    names: dict[str, tuple[Callable[[str], object], str | None]] = {
        "strategy": (strategy.named, request.strategy),
        "objective.target": (known, request.objective.target),
    }
    for field, (find, name) in names.items():
        try:
            if name is not None:
                find(name)
        except NotFound as error:
            raise InvalidInput(field, str(error)) from error


def add_predicted(session: Session, row: SearchRow, request: SearchRequest, catalogue: Catalogue) -> None:
    """Predict configs from the results of other problems, and add these configs as warm starts.

    Do nothing if the request contains warm starts, or asks for a start with the default config. `terms_of` does not
    predict, because a prediction can take a second and is not needed to check a request.
    """
    if request.from_default or request.warm_start is not None:
        return
    if found := transferred(session, catalogue.space(row), row, catalogue.family(row.family)):
        row.warm_start, configs = found
        row.warm_starts = [*configs, *row.warm_starts]


def choose_device(family: Family, request: SearchRequest, offered: Sequence[DeviceRow]) -> Device:
    """Return the device for the search, from the devices that connected workers offer.

    If several devices are suitable, one whose kind has the lowest rank is returned. Devices that only estimate times
    are suitable only if the request names their kind.

    Raises:
        InvalidInput: the family does not support the requested device kind.
        Unavailable: no connected worker offers the device, or no offered device meets the requirements.
    """
    wanted, uuid = request.device, request.device_uuid
    if wanted in kinds():
        family.implementation(_runs_as(wanted))
    mine = [row.device for row in offered if uuid in {None, row.uuid}]
    fitting = [device for device in mine if _runs_as(device.kind) in family.implementations]
    if wanted != "auto":
        fitting = [device for device in fitting if wanted.lower() in {device.kind, device.model.lower()}]
    if wanted not in kinds() or kinds()[wanted].runs != "nothing":
        fitting = [device for device in fitting if device.runs != "nothing"]
    if not fitting:
        raise Unavailable("device" if uuid is None else "device_uuid", _no_worker_text(family, wanted, uuid, offered))
    able = [device for device in fitting if request.requirements.lacking(device) is None]
    if not able:
        lacking = "; ".join(sorted({f"{device.model} {request.requirements.lacking(device)}" for device in fitting}))
        field = _unmet(request.requirements, fitting)
        raise Unavailable(f"requirements.{field}", f"no connected device meets the requirements: {lacking}")
    return min(able, key=lambda device: kind_of(device.kind).rank)


def _unmet(required: Requirements, devices: Sequence[Device]) -> str:
    """Return the first unmet requirement: memory, then toolkit, then sandbox.

    A requirement is unmet if no device meets both this requirement and all earlier ones.
    """
    memory = Requirements(memory_gb=required.memory_gb)
    stages = {"memory_gb": memory, "toolkit": replace(memory, toolkit=required.toolkit), "sandbox": required}
    return next(name for name, each in stages.items() if all(each.lacking(device) for device in devices))


def _runs_as(kind: str) -> str:
    """Return the device kind whose implementation runs on devices of `kind`. For ``estimate``, this is ``cuda``.

    Text that is not a device kind, such as a device model, is returned unchanged.
    """
    return kinds()[kind].implementation if kind in kinds() else kind


def aimed(objective: Objective, device: Device) -> Objective:
    """Return the objective with its target GPU given as a model name.

    The target is None if the device itself is the target.

    Raises:
        InvalidInput: the target is unknown, is not possible with this device kind, or is missing although the device
            kind needs one.
    """
    if objective.target is None:
        if device.runs == "nothing":
            raise InvalidInput(
                "objective.target", "is missing; specify the GPU whose times are to be estimated, e.g. sm_89"
            )
        return objective
    target = known(objective.target)
    if kind_of(device.kind).sources != "cuda":
        raise InvalidInput(
            "objective.target",
            f"is for GPUs; {device.model} is a device of kind {device.kind}. Without a GPU, --compile-only (over REST: "
            "device `estimate`) estimates times on the target",
        )
    return replace(objective, target=None if target.model == device.model else target.model)


def _check_problem(family: Family, request: SearchRequest) -> None:
    """Refuse a problem that the family does not support on the requested device kind.

    If the request names no device kind, at least one implementation of the family must support the problem. This check
    needs no connected worker.
    """
    wanted = "cuda" if request.objective.target is not None else _runs_as(request.device)
    kinds = [kind for kind in family.implementations if kind == wanted] or list(family.implementations)
    refusals: list[InvalidInput] = []
    for kind in kinds:
        try:
            family.problem(request.problem, kind)
        except InvalidInput as refusal:
            refusals.append(refusal)
    if len(refusals) == len(kinds):
        raise refusals[0]


def _check_threads(objective: Objective, device: Device) -> None:
    if device.runs != "recordings" and not kind_of(device.kind).on_host and objective.threads != 1:
        raise InvalidInput("objective.threads", "applies to CPU kernels only; omit it")
    cores = device.limits.get("cores", math.inf)
    if not 1 <= objective.threads <= cores:
        most = "1 or more" if math.isinf(cores) else f"1 … {cores:g}, the cores of {device.model}"
        raise InvalidInput("objective.threads", f"{objective.threads} is out of range; accepted: {most}")


def _check_launch(objective: Objective, device: Device, family: Family) -> None:
    """Refuse a launch mode that the device or the family does not support.

    Devices that only estimate times accept every mode.
    """
    if device.runs == "nothing":
        return
    if objective.launch == "pdl" and device.limits.get("compute_capability", 0) < PDL_SINCE:
        needed = f"programmatic dependent launch needs a GPU of sm_{PDL_SINCE} or newer"
        raise InvalidInput(
            "objective.launch", f"{needed}, but {device.model} is {device.architecture}; accepted: plain"
        )
    if objective.launch == "pdl" and not family.implementation(device.kind).programmatic:
        remedy = "if they wait for the previous kernel (griddepcontrol.wait), set `programmatic` under `derived`"
        raise InvalidInput(
            "objective.launch",
            f"kernels of {family.name} do not support programmatic dependent launch; accepted: plain; {remedy}",
        )


def _check_work(device: Device, family: Family, problem: Problem) -> None:
    """Refuse estimates of a family without `[work]`, because every trial would be compiled and then fail."""
    if device.runs == "nothing" and family.work(problem) is None:
        remedy = "add [work] with flops, bytes and dtype to its family.toml (`import` writes an example in comments)"
        raise InvalidInput("family", f"{family.name} has no [work] table, from which times are estimated; {remedy}")


def _no_worker_text(family: Family, wanted: str, uuid: str | None, offered: Sequence[DeviceRow]) -> str:
    what = "a device" if wanted == "auto" else f"the device {wanted!r}"
    what += "" if uuid is None else f" with uuid {uuid}"
    connected = ", ".join(sorted({f"{row.kind} ({row.model})" for row in offered})) or "none"
    meant = None if wanted in ("auto", *kinds()) else closest(wanted, kinds())
    remedy = "" if meant is None else f"; write {meant!r} in place of {wanted!r}"
    return (
        f"no connected worker offers {what} for {family.name}; connected now: {connected}. "
        f"Start a worker on a machine that has one of: {', '.join(family.implementations)}{remedy}"
    )


def _roofline(family: Family, row: SearchRow) -> Roofline | None:
    return shown_roofline(row.device, family.work(row.problem), row.objective)


def warm_starts(space: Space, search: SearchRow, family: Family, champions: Sequence[ChampionRow]) -> list[Config]:
    """Return the configs to try first: champions of the nearest problems, the family's start configs, and the default.

    Only champions of the same device model are used, at most `MAX_WARM_STARTS`. On two of four recorded spaces,
    champions of other models kept the search in a slow region.
    """
    here = [champion for champion in champions if champion.device_model == search.device.model]
    nearest = sorted(here, key=lambda champion: (_distance_to(search, champion), -champion.id))
    configs = [champion.config for champion in nearest if champion.config in space][:MAX_WARM_STARTS]
    begun = family.begin(search.problem, aimed_at(search.device, search.objective))
    starts = completed(space, begun)
    return unique(space, [*configs, *starts, space.default()])


def transferred(
    session: Session, space: Space, search: SearchRow, family: Family
) -> tuple[WarmStartView, list[Config]] | None:
    """Predict fast configs from the results of other problems on this device model.

    Return a view that describes the configs as a warm start, and the configs, at most `MAX_PREDICTED`. Return None if
    no config can be predicted.

    The results come from earlier searches and from the built-in recorded spaces. The strategy treats the configs only
    as advice, so wrong predictions do little harm ([decision
    86](docs/decisions/0086-results-of-similar-problems-are-advice.md)).
    """
    earlier = [*earlier_results(session, search, family.name), *shipped(family.name, search.device, search.objective)]
    nearest = sorted(earlier, key=lambda each: distance(search.problem, each.problem))
    configs = predicted(space, search.problem, nearest, MAX_PREDICTED)
    if not configs:
        return None
    source = count_text(min(len(nearest), NEAREST), "other problem")
    return WarmStartView(source=source, used=len(configs), invalid=0, spare=0, predicted=True), configs


def imported(space: Space, warm_start: WarmStart) -> tuple[WarmStartView, list[Config]]:
    """Return a summary of a warm start, and its best configs that are in the space, at most `MAX_IMPORTED`.

    The summary counts the used and the unused configs.

    Raises:
        InvalidInput: every config contains an unknown tunable.
    """
    _check_names(space, warm_start)
    valid = completed(space, warm_start.configs)
    used = unique(space, valid)[:MAX_IMPORTED]
    invalid, spare = len(warm_start.configs) - len(valid), len(valid) - len(used)
    return WarmStartView(source=warm_start.source, used=len(used), invalid=invalid, spare=spare), used


def _check_names(space: Space, warm_start: WarmStart) -> None:
    foreign = [sorted(config.keys() - set(space.names)) for config in warm_start.configs]
    if foreign and all(foreign):
        name = foreign[0][0]
        remedy = "rename the parameters in the recorded configs, or omit the warm start"
        raise InvalidInput("warm_start", f"{warm_start.source}: {unknown(name, space.names, 'tunables')}; {remedy}")


def completed(space: Space, parts: Iterable[Config]) -> list[Config]:
    """Add default values for missing tunables, and return the configs that are valid.

    Missing tunables get their declared defaults. If the result is invalid, they get the values of the space's default
    config instead. These values differ from the declared defaults if a constraint forbids the declared defaults.
    """
    declared, valid = space.declared_default(), space.default()
    configs = (({**declared, **part}, {**valid, **part}) for part in parts)
    return [config for either in configs if (config := next(filter(space.__contains__, either), None)) is not None]


def unique(space: Space, configs: Iterable[Config]) -> list[Config]:
    """Return the configs without repetitions, in the order of their first occurrence."""
    return list({space.key(config): config for config in configs}.values())


def _distance_to(search: SearchRow, champion: ChampionRow) -> float:
    """Return the distance between the problems of a search and a champion, plus 1 if their objectives differ."""
    return distance(search.problem, champion.problem) + (search.objective.first != champion.objective)
