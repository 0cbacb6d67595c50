"""The command ``mission`` runs a complete example: it checks the machine, searches, and writes a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evo.cli.arguments.options import Force, WarmStart, examples
from evo.cli.console.output import console, written
from evo.cli.exits import Exit
from evo.cli.service.locations import LocalDatabase, ServiceRef
from evo.cli.service.options import Db
from evo.errors import EvoError
from evo.text.limits import MOST
from evo.text.secrets import masked

if TYPE_CHECKING:
    from rich.console import Console

    from evo.cli.commands.doctor import Finding
    from evo.cli.service.connection import Connection
    from evo.cli.session.follow import Interrupts
    from evo.cli.session.request import Request
    from evo.device import Device
    from evo.report.mission import Mission, Result

MINUTES = 60.0


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo mission",
            "kernel-evo mission --minutes 30 --cost-per-hour 0.68 --to report.md",
            "kernel-evo mission --warm-start recordings/NAME.json.gz",
            "kernel-evo mission --rehearse",
        )
    )(mission)


def mission(
    *,
    minutes: Annotated[
        float, typer.Option(min=0.1, max=10**6, metavar="M", help="Duration of all searches together, in minutes.")
    ] = MINUTES,
    cost_per_hour: Annotated[
        float | None,
        typer.Option(
            min=0.0001, max=MOST, metavar="MONEY", help="Cost of the machine per hour; the report states the total."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="DEVICE", help="Device kind or model; by default cuda, or auto for a rehearsal."),
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Run the whole procedure once on small problems; needs no GPU.")
    ] = False,
    warm_start: WarmStart = None,
    to: Annotated[Path, typer.Option(dir_okay=False, metavar="FILE", help="File for the report.")] = Path("mission.md"),
    force: Force = False,
    db: Db = None,
) -> None:
    """Run a complete example: check the machine, search two shapes of attention, and compare the best times with goals
    and the device's limits.

    The shapes are B=2, H=8, D=64 with S=256 and S=512. The goals are times from 47 to 5 µs on an NVIDIA L4. For any
    other device, the report states that the goals do not apply. After Ctrl-C, the running search ends, and the report
    contains the results so far.
    """
    from evo.cli.commands.doctor import look_around, print_findings
    from evo.cli.files.writing import require_place, write_or_show
    from evo.cli.service.devices import local_devices
    from evo.cli.session.warm_start import read_warm_start
    from evo.report.mission import MISSION, REHEARSAL

    require_place(to, force=force)
    advice = {} if warm_start is None else {"warm_start": read_warm_start(warm_start)}
    chosen, wanted = (REHEARSAL, device or "auto") if rehearse else (MISSION, device or "cuda")
    out, devices = console(), local_devices()
    findings = list(look_around(LocalDatabase.of(db), devices))
    print_findings(devices, findings)
    out.print()
    _require(devices, wanted, chosen.family)
    budget = {"minutes": minutes / len(chosen.problems), **({} if chosen.trials is None else {"trials": chosen.trials})}
    if cost_per_hour is not None:
        budget["cost_per_hour"] = cost_per_hour
    terms = {"device": wanted, "budget": budget, **advice}
    results = _searched(chosen, terms, ServiceRef(database=db), out)
    write_or_show(to, _report(chosen, results, findings), force=force)
    out.print(written(to))
    raise typer.Exit(Exit.DONE if results and all(each.best for each in results) else Exit.NOTHING_FOUND)


def _require(devices: "list[Device]", wanted: str, family: str) -> None:
    """Check that this machine has the device and the software for the family."""
    from evo.cli.service.devices import choose
    from templates import registry

    try:
        choose(devices, wanted, registry.find(family).family)
    except EvoError as error:
        raise EvoError(
            f"{error}. `kernel-evo mission --rehearse` runs the whole procedure on small problems and needs no GPU"
        ) from None


def _searched(mission: "Mission", terms: dict[str, Any], where: ServiceRef, out: "Console") -> "list[Result]":
    """Run the mission's searches one after another, and stop after an interrupted search."""
    from evo.cli.session.follow import Interrupts
    from evo.cli.session.session import ended_by_signals, reached

    interrupts, results = Interrupts(), []
    with ended_by_signals(), reached(out, where, measuring=True, beginning=True) as connection, interrupts.listen():
        for problem in mission.problems:
            asked = _request(mission, problem, **terms)
            results.append(_search(asked, connection, where, out, interrupts))
            if interrupts.count:
                break
    return results


def _request(mission: "Mission", problem: str, **terms: Any) -> "Request":
    from evo.cli.session.request import Request

    usual = {"objective": {}, "strategy": "portfolio", "seed": 0, "policy": "default", "notes": "mission"}
    asked = Request.of(family=mission.family, problem=problem, **{**usual, **terms})
    return asked.under(mission.policy) if mission.policy else asked


def _search(
    asked: "Request", connection: "Connection", where: ServiceRef, out: "Console", interrupts: "Interrupts"
) -> "Result":
    from evo.cli.console.display import head, screen
    from evo.cli.session.follow import follow
    from evo.cli.session.session import begun
    from evo.report.mission import Result

    view = begun(asked, connection, where)
    out.print(head(view, masked(f"{connection.client.url}/searches/{view.id}")))
    with screen(out) as shown:
        view = follow(connection, view.id, shown, interrupts)
    ranking = connection.ask(lambda client: client.trials(view.id, sort="rank", limit=1)).items
    return Result(search=view, best=next((each for each in ranking if each.has_valid_time), None))


def _report(mission: "Mission", results: "list[Result]", findings: "list[Finding]") -> str:
    from evo.report.mission import mission_report
    from templates import registry

    family = registry.find(mission.family).family
    works = [family.work(result.search.problem) for result in results]
    missing = [f"{each.what}, for {each.needed_for}: {each.remedy}" for each in findings if not each.found]
    return mission_report(mission, results, works, missing)
