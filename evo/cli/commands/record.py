"""The command ``record`` measures a space or a random sample of it, and writes files that can be searched
without the device.
"""

import gzip
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evo.cli.arguments.options import Cache, DeviceName, Problem, Threads, examples
from evo.cli.arguments.usage import refuse_family_with_resume, refuse_with_resume
from evo.cli.console.output import console, written
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import InvalidInput

if TYPE_CHECKING:
    from evo.client import Client
    from evo.messages.view import SearchView, TrialView
    from evo.space import Space
    from evo.space.recording import Recording

MOST = 100_000
"""Maximum number of configs in a recording."""

POLICY = {
    "name": "recording",
    "challenge_every": 10**9,
    "prune_ratio": None,
    "shorten_ratio": None,
    "hopeless_ratio": None,
}
"""Policy of recordings. No trial is stopped early, every config gets all samples, and no challenge interrupts the
search.
"""


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo record softmax --problem rows=64,cols=256 --to recordings",
            "kernel-evo record sdpa --device cuda --sample 2000 --to recordings",
            "kernel-evo record --resume 12 --to recordings",
            "kernel-evo search recordings/NAME.json.gz",
            "kernel-evo search h100-sdpa-64 --trials 200",
        )
    )(record)


@on_service
def record(
    context: typer.Context,
    family: Annotated[
        str | None, typer.Argument(metavar="FAMILY", help="A built-in family, or the path of a family folder.")
    ] = None,
    *,
    problem: Problem = "",
    device: DeviceName = "auto",
    sample: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="Measure N random configs instead of all."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Random seed for the order of the configs and for the selection with --sample."
        ),
    ] = 0,
    cache: Cache = "hot",
    threads: Threads = 1,
    resume: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="SEARCH",
            help="Continue the recording of this search. If the search has ended, only write its files.",
        ),
    ] = None,
    to: Annotated[Path, typer.Option(file_okay=False, metavar="FOLDER", help="Folder for the recording.")] = Path(),
    where: ServiceRef,
) -> None:
    """Measure every valid config of a space and write the results as a Kernel Tuner cache and as T4 results.

    T4 is the format of github.com/odgaard/TuningSchema. A later search can replay these files instead of measuring on a
    device. The connected workers measure the configs as in any search, and the database stores the results. After an
    interruption, only the remaining configs are measured.
    """
    from evo.cli.files.writing import writing_to
    from evo.cli.session import session
    from evo.cli.session.request import Request
    from evo.search.lifecycle import TERMINAL

    asked: Request | int
    if resume is not None:
        refuse_family_with_resume(family, resume, command="record", options=where.options)
        refuse_with_resume(context, {"--to"})
        with connect(where) as connection:
            if (view := connection.client.search(resume)).state in TERMINAL:
                _keep(connection.client, view, to)
                return
        asked = resume
    elif family is not None:
        asked = Request.of(
            family=family,
            problem=problem,
            device=device,
            objective={"cache": cache, "threads": threads},
            strategy="random",
            seed=seed,
            policy="default",
            budget={"trials": sample or MOST},
        ).under(POLICY)
    else:
        raise typer.BadParameter("name a family, or choose a search with --resume", param_hint="FAMILY")
    with writing_to(to):  # before the search, which may take hours
        to.mkdir(parents=True, exist_ok=True)
    raise typer.Exit(session.run(asked, where, then=lambda connection, view: _keep(connection.client, view, to)))


def _keep(client: "Client", view: "SearchView", folder: Path) -> None:
    """Write the Kernel Tuner cache and the T4 results of an ended search, and print their paths.

    Raises:
        InvalidInput: the search only estimated its trials.
    """
    from evo.cli.files.writing import writing_to
    from evo.device.estimate.target import aimed_at
    from evo.family import Family
    from evo.space.recording import cache_document, results_document

    if view.estimated:
        raise InvalidInput(
            "SEARCH", f"search {view.id} only estimated its trials; choose a search that measured its trials"
        )
    device = aimed_at(view.device, view.objective)
    space = Family.from_document(client.family(view.family).document).space(view.problem, device, view.objective)
    recording = recorded(view, space, client.every_trial(view.id))
    about = {"problem": view.problem_key, "environment": _environment(view), "valid_configs": space.valid_count}
    sizes = [value for value in view.problem.values() if isinstance(value, int) and not isinstance(value, bool)]
    documents = {
        "": cache_document(recording, kernel=view.family, problem_size=sizes, **about),
        ".t4": results_document(recording, kernel_name=view.family, **about),
    }
    out = console()
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for form, document in documents.items():
            path = folder / f"{recording.name}{form}.json.gz"
            _write(path, document)
            out.print(written(path))
    complete = space.valid_count == len(recording.entries)
    share = "all of them" if complete else f"of {space.valid_count or 'over a million'} valid ones"
    out.print(f"{len(recording.entries):,} configs, {share}")
    if view.device.runs == "recordings":
        out.print(
            "The search replayed a recording, so the compile and timing durations in the new files are close to zero. "
            "The original recording has the measured durations."
        )


def recorded(view: "SearchView", space: "Space", trials: "Iterable[TrialView]") -> "Recording":
    """Return the recording of a search's trials.

    Trials without an evaluated config are excluded: running, abandoned and cancelled trials, and trials for which the
    reference failed.

    Args:
        space: space of the search.
    """
    from evo.space.recording import Costs, Entry, Recording, recording_name
    from evo.trial.outcome import Abandoned, Cancelled, ReferenceFailed
    from evo.trial.results import Stages

    entries = {}
    for trial in trials:
        if trial.outcome is None or isinstance(trial.outcome, Abandoned | Cancelled | ReferenceFailed):
            continue
        stages = trial.stages or Stages()
        costs = Costs(
            compile_s=stages.render_s + stages.compile_s, verify_s=stages.verify_s, benchmark_s=stages.measure_s
        )
        entries[space.key(trial.config)] = Entry(config=trial.config, outcome=trial.outcome, costs=costs)
    return Recording(
        name=recording_name(f"{view.family}-{view.problem_key}-{view.device.model}"),
        device=view.device.model,
        tunables={tunable.name: tuple(tunable.values) for tunable in space.tunables},
        entries=entries,
    )


def _environment(view: "SearchView") -> dict[str, Any]:
    device, objective = view.device, view.objective
    terms = {"cache": objective.cache, "threads": objective.threads, "protocol": objective.protocol}
    aim = {} if objective.target is None else {"gated_for": objective.target}
    return {"architecture": device.architecture, **device.software, **terms, **aim}


def _write(path: Path, document: dict[str, Any]) -> None:
    """Write a document as a compressed JSON file. Equal documents give identical files."""
    from evo.cli.files.writing import write_file

    content = json.dumps(document, separators=(",", ":")).encode()
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as file:
        file.write(content)
    write_file(path, packed.getvalue())
