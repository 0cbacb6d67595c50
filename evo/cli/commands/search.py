"""The command ``search`` starts a search and follows it."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evo.cli.arguments.naming import VARIABLES
from evo.cli.arguments.options import (
    AnyOrder,
    Cache,
    DeviceName,
    Json,
    LaunchMode,
    PolicyName,
    Problems,
    Threads,
    WarmStart,
    examples,
    listing,
    strategies,
)
from evo.cli.arguments.usage import refuse_family_with_resume, refuse_with_resume, typed_options
from evo.cli.console.output import console, print_json
from evo.cli.service.locations import LocalDatabase, ServiceRef
from evo.cli.service.options import on_service
from evo.cli.service.standby import Standby
from evo.errors import EvoError, InvalidInput
from evo.text.limits import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evo.search.suite.suite import Goal

CONFIGS = 4
MINUTES = 2.0
"""Default time limit of a search, in minutes."""

_STRATEGY = "Strategy that chooses the configs."
_DEVICE = "Device"
_BUDGET = "Budget: the first limit reached ends the search"


def register(app: typer.Typer) -> None:
    app.command(
        cls=listing("strategy", strategies),
        epilog=examples(
            "kernel-evo search sdpa",
            "kernel-evo search sdpa --problem B=2,H=8,S=512,D=64 --minutes 10",
            "kernel-evo search sdpa --problem S=128,256,512,1024",
            "kernel-evo search --suite zoo --minutes 60",
            "kernel-evo search rmsnorm --suite ./model.toml --configs 2",
            "kernel-evo search ./my_kernel --trials 200 --strategy evolution --seed 7",
            "kernel-evo search softmax --minutes 60 --detach && kernel-evo searches",
            "kernel-evo search sdpa --max-cost 5 --cost-per-hour 0.68 --warm-start cache.json",
            "kernel-evo search sdpa --target sm_89 --minutes 5",
            "kernel-evo search sdpa --target sm_89 --compile-only --trials 200",
            'kernel-evo search sdpa --device cuda --device-memory 22 --toolkit "cuda>=12.4"',
            "kernel-evo search --resume 12",
        ),
    )(search)


@on_service
def search(
    context: typer.Context,
    family: Annotated[
        str | None,
        typer.Argument(metavar="FAMILY", help="A built-in family, or the path of a family folder or recording."),
    ] = None,
    *,
    problem: Problems = "",
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Search all problems of a suite with one shared budget: the built-in suite zoo, or a TOML file. With "
            "FAMILY, search only that family's problems.",
        ),
    ] = None,
    configs: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            metavar="K",
            help="Maximum number of configs per family that a suite's report selects.",
        ),
    ] = CONFIGS,
    device: DeviceName = "auto",
    trials: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="Maximum number of trials.", rich_help_panel=_BUDGET),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=MOST,
            metavar="M",
            help=f"Maximum duration in minutes; {MINUTES:g} if no limit is given. Confirming the best trial, and "
            "waiting for a device that another process uses, take additional time.",
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    stagnation: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST,
            metavar="N",
            help="Stop after N trials without a better trial.",
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            min=0.0001, max=MOST, metavar="MONEY", help="Maximum cost; needs --cost-per-hour.", rich_help_panel=_BUDGET
        ),
    ] = None,
    cost_per_hour: Annotated[
        float | None,
        typer.Option(
            min=0.0001,
            max=MOST,
            metavar="MONEY",
            help="Hourly cost of all machines that work for the search; the report then states the total cost.",
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(metavar="NAME", help=_STRATEGY),
    ] = "portfolio",
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Random seed. With the same seed and the same times, searches choose the same configs.",
        ),
    ] = 0,
    policy: PolicyName = "default",
    cache: Cache = "hot",
    threads: Threads = 1,
    launch: LaunchMode = "plain",
    any_order: AnyOrder = False,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="GPU",
            help="GPU whose limits each config must respect, e.g. sm_89 or 'NVIDIA L4'. Each config is also compiled "
            "for this GPU, and that build must stay within its limits. Times are measured on the GPU of this machine.",
        ),
    ] = None,
    compile_only: Annotated[
        bool,
        typer.Option(
            "--compile-only", help="Run no kernel; estimate the times on the GPU of --target. Works on any machine."
        ),
    ] = False,
    warm_start: WarmStart = None,
    from_default: Annotated[
        bool,
        typer.Option(
            "--from-default",
            help="Start only from the default config, without earlier champions and the family's starting configs.",
        ),
    ] = False,
    device_uuid: Annotated[
        str | None,
        typer.Option(metavar="UUID", help="Search only on the device with this UUID.", rich_help_panel=_DEVICE),
    ] = None,
    device_memory: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=MOST,
            metavar="GB",
            help="Search only on devices that report at least this much memory.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
    toolkit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME>=VERSION",
            help="Search only on machines with at least this version of cuda, cuda_driver, gcc or clang; may be "
            "repeated.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL to notify when the search ends; must be reachable from the service."),
    ] = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            metavar="SECRET",
            help="Secret for signing the message to the --webhook; by default the service's secret.",
            envvar=VARIABLES["--webhook-secret"],
        ),
    ] = None,
    priority: Annotated[
        int, typer.Option(min=-1000, max=1000, metavar="N", help="Workers serve searches with a higher priority first.")
    ] = 0,
    notes: Annotated[str, typer.Option(metavar="TEXT", help="Notes shown with the search.")] = "",
    resume: Annotated[
        int | None,
        typer.Option(min=1, metavar="SEARCH", help="Continue this search instead of starting one."),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OBJECTIVE",
            help="Objective: `time` (default), or your own metric as `minimise: EXPRESSION` or `maximise: EXPRESSION` "
            "over time_us, energy_uj, gflop_s, gb_s, registers …, tunables and fields. A suite may also have the "
            "objective `worst` (minimise the largest slowdown of any call). Give the option twice to search for the "
            "Pareto front of two objectives; the first objective decides which trial is the champion.",
        ),
    ] = None,
    ablate: Annotated[
        bool,
        typer.Option(
            "--ablate", help="After the search, measure the effect of each switch of the champion, as `ablate` does."
        ),
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Search in the background, and return immediately.")] = False,
    announce: Annotated[Path | None, typer.Option(hidden=True)] = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Search the space of a family for the fastest correct config, and promote this config if the evidence suffices.

    The command uses the running service of the database. If no service runs, the command starts a service and a worker,
    which end with the search. Several shapes (`S=128,256`, or the range `S=1..4096`) are searched one after
    another. Each shape has the whole budget, and starts from the champions of the previous shapes. The problems of a
    suite share one budget, which is spent in parts: each part goes to the problem with the largest expected gain. With
    --json, a search is printed as one object, and several shapes as a list of objects. After one Ctrl-C, running trials
    finish, and the report is printed. A second Ctrl-C cancels the search.
    """
    from evo.cli.commands import ablation
    from evo.cli.session import background
    from evo.text.assignments import split_shapes

    if resume is not None and suite is None:
        refuse_with_resume(context, {"--ablate", "--detach", "--announce"})
    if webhook is None and webhook_secret is not None and "--webhook-secret" in typed_options(context):
        raise InvalidInput(
            "--webhook-secret",
            "has no effect without --webhook, whose message it signs; add --webhook, or omit the secret",
        )
    then = partial(ablation.after_search, as_json=as_json) if ablate else None
    if detach and ablate and where.url is not None:
        raise InvalidInput("--ablate", "runs after the search, and --detach does not wait for it; run `ablate` later")
    if detach and where.url is None:
        again = [argument for argument in sys.argv[1:] if argument != "--detach"]
        location = LocalDatabase.to_begin(where.database) if resume is None else LocalDatabase.to_use(where.database)
        raise typer.Exit(background.detach(again, location, where.options, as_json=as_json))
    if resume is not None and suite is not None:
        raise InvalidInput("--suite", f"search {resume} has its own problem; omit --suite or --resume")
    if resume is not None:
        refuse_family_with_resume(family, resume, command="search", options=where.options)
        where = _with_standby(where, context)
        from evo.cli.session import session

        raise typer.Exit(session.run(resume, where, stay=not detach, announce=announce, as_json=as_json, then=then))
    if family is None and suite is None:
        raise typer.BadParameter(
            "name a family, or choose a suite with --suite, or a search with --resume", param_hint="FAMILY"
        )
    problems = [""] if suite is not None else split_shapes(problem)
    if detach and suite is not None:
        raise InvalidInput(
            "--detach", "cannot be combined with a suite, whose searches run one after another; omit --detach"
        )
    if detach and len(problems) > 1:
        raise InvalidInput(
            "--detach",
            "cannot be combined with several shapes of --problem, which are searched one after another; omit --detach",
        )
    terms: dict[str, Any] = dict(
        device=_estimating(device, target, threads=threads, ablate=ablate) if compile_only else device,
        objective=_objective(cache=cache, threads=threads, launch=launch, any_order=any_order, target=target)
        | _goals(objective or ["time"], suite=suite is not None),
        strategy=strategy,
        seed=seed,
        policy=policy,
        budget=_budget(trials, minutes, stagnation, max_cost, cost_per_hour),
        priority=priority,
        notes=notes,
        device_uuid=device_uuid,
        requirements=_requirements(device_memory, toolkit or []),
        **({} if webhook is None else {"webhook": {"url": webhook, "secret": webhook_secret}}),
        **({"from_default": True} if from_default else {}),
        **({} if warm_start is None else {"warm_start": _read_warm_start(warm_start)}),
    )
    where = _with_standby(where, context)
    if suite is not None:
        refused = {
            "--problem": problem != "",
            "--warm-start": warm_start is not None,
            "--ablate": ablate,
            "--max-cost": max_cost is not None,
            "--webhook": webhook is not None,
            "--compile-only": compile_only,
        }
        _refuse_for_suites([option for option, given in refused.items() if given])
        budget = {"trials": trials, "minutes": minutes, "stagnation": stagnation}
        goal: Goal | None = "worst" if [each.strip() for each in objective or ()] == ["worst"] else None
        raise typer.Exit(
            _search_suite(suite, family, terms, where, budget, goal=goal, configs=configs, as_json=as_json)
        )
    assert family is not None
    from evo.cli.session import session, shapes
    from evo.cli.session.request import Request

    asked = Request.of(family=family, problem=problems[0], **terms)
    if len(problems) == 1:
        raise typer.Exit(session.run(asked, where, stay=not detach, announce=announce, as_json=as_json, then=then))
    shaped = [asked.at(each) for each in problems]
    raise typer.Exit(shapes.run(shaped, where, announce=announce, as_json=as_json, then=then))


def _with_standby(where: ServiceRef, context: typer.Context) -> ServiceRef:
    """Start standby processes for a local service and its worker, and return `where` with these processes.

    The processes load their modules while this command loads its own. Unused processes end together with the command.
    For a remote service, or if the database cannot be used, no process starts, and `where` is returned unchanged.
    """
    if where.url is not None:
        return where
    try:
        database = LocalDatabase.of(where.database).database
    except EvoError:  # reported later, when the command uses the database
        return where
    standby = Standby.of_a_search(database)
    context.call_on_close(standby.end)
    return replace(where, standby=standby)


def _read_warm_start(source: str) -> dict[str, Any]:
    from evo.cli.session.warm_start import read_warm_start

    return read_warm_start(source)


def _refuse_for_suites(options: "Sequence[str]") -> None:
    if options:
        raise InvalidInput(options[0], f"applies to a single search, and --suite runs several; omit {options[0]}")


def _search_suite(
    name: str,
    family: str | None,
    terms: "Mapping[str, Any]",
    where: ServiceRef,
    budget: "Mapping[str, Any]",
    *,
    goal: "Goal | None",
    configs: int,
    as_json: bool,
) -> int:
    """Search a suite, print its result, and return the exit code.

    Args:
        name: name or file of the suite.
        family: family to which the suite is restricted; None for all families of the suite.
        terms: request fields of every search.
        budget: limits that the searches share, by name; None for a limit that was not given.
        goal: goal that replaces the suite's own goal; None to keep the suite's goal.
        configs: maximum number of configs per family that the result selects.
    """
    from evo.cli.console.suite_result import print_suite, suite_document
    from evo.cli.session import suites
    from evo.cli.session.request import Request
    from templates.suites import find

    suite = find(name) if family is None else find(name).of_family(family)
    if goal is not None:
        suite = replace(suite, goal=goal)
    if suite.goal == "time" and terms["objective"].get("metric") is not None:
        reason = (
            f'suite {suite.name} minimises the total time (goal = "time"), but values of a metric cannot be added up'
        )
        raise InvalidInput("--objective", f'{reason}; set goal = "ratio" or "worst" in the suite\'s file')
    requests = {call.name: Request.of(family=call.family, problem=call.text, **terms) for call in suite.calls}
    limits = {limit: value for limit, value in budget.items() if value is not None}
    shared = suites.Shared(**(limits if "trials" in limits else {"minutes": MINUTES * len(suite.calls), **limits}))
    found = suites.run(suite, requests, where, shared, as_json=as_json)
    if as_json:
        print_json(suite_document(found, configs))
    else:
        print_suite(console(), found, configs, where.options)
    return found.exit


def _goals(objectives: "Sequence[str]", *, suite: bool) -> dict[str, object]:
    """Return the request fields for one or two objectives.

    Args:
        objectives: values of ``--objective``.
        suite: True for a suite, which has only one objective.
    """
    if len(objectives) == 1:
        return _goal(objectives[0], suite=suite)
    if len(objectives) > 2:
        raise InvalidInput(
            "--objective", f"was given {len(objectives)} times; a search has at most 2 objectives, so omit the others"
        )
    if suite:
        raise InvalidInput("--objective", "was given twice, and a suite has only one objective; omit one of them")
    second = _goal(objectives[1], suite=False) or {"metric": "time_us", "direction": "minimise"}
    return _goal(objectives[0], suite=False) | {f"second_{name}": value for name, value in second.items()}


def _goal(objective: str, *, suite: bool) -> dict[str, object]:
    """Return the request fields for an objective. The dict is empty for ``time``, and for ``worst`` with a suite."""
    if objective.strip() == "time" or (suite and objective.strip() == "worst"):
        return {}
    if objective.strip() == "worst":
        remedy = "pass the problems as a --suite, e.g. a TOML file, or omit `worst`"
        raise InvalidInput(
            "--objective", f"`worst` is the largest slowdown among problems that are tuned together; {remedy}"
        )
    from evo.trial.objective import direction_from, objective_meant

    before, colon, metric = objective.partition(":")
    if not colon or not metric.strip():
        meant = objective_meant(objective)
        remedy = "accepted: time, minimise: EXPRESSION, maximise: EXPRESSION, e.g. `maximise: gflop_s`"
        reason = f"{objective!r} is neither `time` nor a direction with a metric; {remedy}"
        recorded = (
            "A recording has only times; to search it by your metric, replace each time with a number that decreases "
            "as the metric improves"
        )
        raise InvalidInput("--objective", f"{reason}. {recorded}" if meant is None else f'{reason}; write "{meant}"')
    try:
        direction = direction_from(before, "--objective")
    except InvalidInput as error:
        if (meant := objective_meant(objective)) is None:
            raise
        raise InvalidInput("--objective", f'{objective!r} does not begin with a direction; write "{meant}"') from error
    return {"metric": metric.strip(), "direction": direction}


def _estimating(device: str, target: str | None, *, threads: int, ablate: bool) -> str:
    """Return the device kind for --compile-only, after checking the options that this option requires or excludes."""
    if device not in ("auto", "estimate"):
        raise InvalidInput("--compile-only", f"runs no kernel, so --device {device} does not apply; omit --device")
    if target is None:
        raise InvalidInput("--compile-only", "needs --target, the GPU of the estimates, e.g. --target sm_89")
    if threads != 1:
        raise InvalidInput(
            "--threads", "applies to CPU kernels only, and --compile-only estimates for a GPU; omit --threads"
        )
    if ablate:
        raise InvalidInput("--ablate", "needs a champion, and --compile-only promotes none; omit --ablate")
    return "estimate"


def _budget(
    trials: int | None,
    minutes: float | None,
    stagnation: int | None,
    max_cost: float | None,
    cost_per_hour: float | None,
) -> dict[str, float]:
    if max_cost is not None and cost_per_hour is None:
        raise InvalidInput("--max-cost", "needs --cost-per-hour, the cost of all machines together")
    given = {"trials": trials, "minutes": minutes, "stagnation": stagnation, "cost": max_cost}
    limits = {name: limit for name, limit in given.items() if limit is not None} or {"minutes": MINUTES}
    return limits if cost_per_hour is None else {**limits, "cost_per_hour": cost_per_hour}


def _objective(*, cache: str, threads: int, launch: str, any_order: bool, target: str | None) -> dict[str, object]:
    terms = {"cache": cache, "threads": threads, "launch": launch, "deterministic": not any_order}
    return {**terms, **({} if target is None else {"target": target})}


def _requirements(memory_gb: float | None, toolkit: "Sequence[str]") -> dict[str, object]:
    """Check the requirements on devices, and return the value of the request field ``requirements``."""
    from evo.device.requirements import Requirements, parse_toolkit

    required = Requirements(memory_gb=memory_gb, toolkit=dict(map(parse_toolkit, toolkit)))
    return {"memory_gb": required.memory_gb, "toolkit": dict(required.toolkit)}
