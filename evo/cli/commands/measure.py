"""The commands ``measure`` and ``render`` examine one config in detail, without a service."""

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import (
    AnyOrder,
    Cache,
    ConfigText,
    DeviceName,
    FamilyName,
    Json,
    PolicyName,
    Problem,
    Threads,
    examples,
    named_path,
)
from evo.cli.console.output import console, print_json
from evo.cli.exits import Exit
from evo.device import kind_of
from evo.errors import EvoError, InvalidInput, NotFound
from evo.text.shell import command
from evo.text.visible import visible
from evo.text.wording import count_text, spaced_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evo.device import Device
    from evo.family import Candidate
    from evo.trial.objective import Objective
    from templates.registry import Package


UNDECIDED = 5
"""Maximum number of printed lines that are marked as unchecked and may have caused a failure."""


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo measure sdpa",
            "kernel-evo measure sdpa --config BLOCK_N=64 --problem S=512 --cache cold",
            "kernel-evo measure ./saxpy --config WIDTH=8,UNROLL=4 --json",
        )
    )(measure)
    app.command(
        epilog=examples(
            "kernel-evo render sdpa",
            "kernel-evo render sdpa --config BLOCK_N=64 --problem S=512 --to kernel.c",
            "kernel-evo render sdpa --target sm_89",
        )
    )(render)


def measure(
    family: FamilyName,
    *,
    config: ConfigText = "",
    problem: Problem = "",
    device: DeviceName = "auto",
    policy: PolicyName = "default",
    cache: Cache = "hot",
    threads: Threads = 1,
    any_order: AnyOrder = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed of the inputs.")] = 0,
    compiler_output: Annotated[
        bool,
        typer.Option(
            "--compiler-output", help="Print all lines of the compiler's output, not only its first error or warning."
        ),
    ] = False,
    baselines: Annotated[bool, typer.Option(help="Also time the family's baselines, for comparison.")] = True,
    as_json: Json = False,
) -> None:
    """Render, compile, verify and time one config on this machine, and print every result."""
    from rich.text import Text

    from evo.cli.console.steps import print_climb, steps
    from evo.cli.service.devices import cache_folder, cache_trouble
    from evo.cli.session.request import read_policy
    from evo.device.estimate.roofline import device_roofline
    from evo.promotion.policy import policy_from
    from evo.trial.explain import detail_text
    from evo.trial.objective import Objective
    from evo.trial.outcome import Measured
    from workers.jobs.single import evaluate_config

    objective = Objective(cache=cache, threads=threads, deterministic=not any_order)
    gates = policy_from(read_policy(policy))
    with _undecided(family):
        package, chosen, candidate = resolve(family, config, problem, device, objective)
    out = console()
    _print_shared(chosen)
    if (trouble := cache_trouble()) is not None:
        sys.stderr.write(f"{visible(str(trouble))}\n")
    if not as_json:
        about = f" {spaced_text(candidate.problem)} on {chosen.model}"
        out.print(Text.assemble((package.family.name, "bold cyan"), about))
        out.print(Text(f"{spaced_text(candidate.config)}\n"))
    with _undecided(family), steps(lines=not as_json) as say:
        evaluated = evaluate_config(
            package,
            candidate.config,
            problem=candidate.problem,
            device=chosen,
            folder=cache_folder(),
            objective=objective,
            policy=gates,
            seed=seed,
            baselines=baselines,
            on_busy=partial(_print_busy, chosen),
            on_step=say,
        )
    if as_json:
        beside = {name: getattr(evaluated, name) for name in ("trouble", "doubt", "baselines", "waited_s")}
        print_json({**vars(evaluated.report), **beside})
    else:
        limit = device_roofline(chosen, package.family.work(candidate.problem), objective)
        print_climb(out, evaluated, cache, limit, whole_log=compiler_output)
    if not isinstance(outcome := evaluated.report.outcome, Measured):
        _print_undecided(family, f"{detail_text(outcome)} {evaluated.trouble or ''}")
    sound = isinstance(evaluated.report.outcome, Measured) and evaluated.doubt is None
    raise typer.Exit(Exit.DONE if sound else Exit.NOTHING_FOUND)


@contextmanager
def _undecided(family: str) -> "Iterator[None]":
    """Context manager that, after an error, prints the unchecked lines of an imported family (`_print_undecided`).

    After a `NotFound` or a plain `EvoError`, no lines are printed, because the family did not cause these errors.
    """
    try:
        yield
    except EvoError as error:
        if type(error) not in (EvoError, NotFound):  # errors of these two classes report a missing device or driver
            _print_undecided(family, str(error))
        raise


def _print_undecided(family: str, failure: str) -> None:
    """Print to standard error the unchecked lines of a family that may have caused a failure.

    An imported family marks its unchecked lines with a comment. If `failure` names the file or the table of a marked
    line, only the marked lines of the named files and tables are printed. Otherwise, all marked lines are candidates.
    At most `UNDECIDED` lines are printed, then the number of the other marked lines.

    Args:
        family: the command's argument FAMILY. If it is not the path of a family's folder, nothing is printed.
        failure: text that describes the failure.
    """
    from evo.family.importing.writing import MARK

    files = (Path(family) / name for name in ("reference.py", "family.toml"))
    marked = [line for path in files if path.is_file() for line in _marked(path, MARK)]
    names = set(re.findall(r"[\w.]+", failure))
    about = [line for line in marked if {line.path.name, line.table} & names] or marked
    shown = [f"  {each.path}:{each.number}: {each.question}" for each in about[:UNDECIDED]]
    if shown:
        head = "These lines are still marked as unchecked, and may be the cause of the failure:"
        rest = len(marked) - len(shown)
        others = f"  {count_text(rest, 'more line')}: grep -rn '{MARK.strip()}' {quote(family)}"
        sys.stderr.write(visible("\n".join([head, *shown, *([others] if rest else [])])) + "\n")


@dataclass(frozen=True, kw_only=True)
class _Marked:
    """A line that is marked as unchecked.

    Attributes:
        number: line number, from 1.
        question: text after the mark.
        table: name of the argument, case or other table of family.toml that contains the line. Empty if the table has
            no name.
    """

    path: Path
    number: int
    question: str
    table: str


def _marked(path: Path, mark: str) -> "Iterator[_Marked]":
    table = ""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if line.startswith("["):
            table = ""
        if (name := re.match(r'name = "(\w+)"', line)) is not None:
            table = name[1]
        if mark in line:
            yield _Marked(path=path, number=number, question=line.partition(mark)[2], table=table)


def _print_busy(device: "Device", holder: int | None) -> None:
    """Report on standard error that another process holds the device."""
    who = "another process" if holder is None else f"process {holder}"
    sys.stderr.write(f"Waiting for {device.model}: {who} is measuring on it.\n")


def _print_shared(device: "Device") -> None:
    from workers.backends.cuda.machine import nvml

    if device.kind == "cuda" and (users := nvml.strangers(device.uuid)):
        sys.stderr.write(f"{device.model} is in use by {', '.join(users)}: times measured now are not reliable.\n")


def render(
    family: FamilyName,
    *,
    config: ConfigText = "",
    problem: Problem = "",
    device: DeviceName = "auto",
    target: Annotated[
        str | None,
        typer.Option(help="Architecture or model of a GPU, which this machine need not have; replaces --device."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(parser=named_path, help="File to write; by default, standard output.")
    ] = None,
) -> None:
    """Print the source of one config."""
    from evo.cli.files.writing import write_file, writing_to
    from evo.trial.objective import Objective
    from templates.render import render as render_source

    package, chosen, candidate = resolve(family, config, problem, device, Objective(), target=target)
    source = render_source(package, chosen.kind, candidate.config, candidate.problem, candidate.derived)
    if to is None:
        sys.stdout.write(visible(source) if sys.stdout.isatty() else source)
    else:
        with writing_to(to):
            write_file(to, source)


def resolve(
    family: str, config: str, problem: str, device: str, objective: "Objective", *, target: str | None = None
) -> "tuple[Package, Device, Candidate]":
    """Return the family's package, the device, and the candidate: the config with its problem and objective.

    Args:
        target: a known GPU, which need not be in this machine. None if `device` selects a device of this machine.

    Raises:
        NotFound: the family, the device or the target is unknown.
        InvalidInput: an argument is not valid, e.g. several shapes, too many threads, a config that violates a
            constraint, or a target together with a device. Also if the family is a recording, or if its template or
            source has an error or does not use a tunable that family.toml declares.
    """
    from evo.cli.arguments.config import parse_config
    from evo.cli.service.devices import choose, local_devices
    from evo.device.estimate.target import known
    from evo.errors import RenderError
    from templates import registry
    from templates.render import check

    package = registry.find(family)
    if package.recording is not None:
        replay = command("search", family)
        raise InvalidInput(
            "FAMILY", f"{family} is a recording, which has no source to build; replay it with `{replay}`"
        )
    if target is not None and device != "auto":
        raise InvalidInput("--target", "replaces --device; omit one of them")
    chosen = choose(local_devices(), device, package.family) if target is None else known(target)
    _refuse_several(problem)
    _refuse_threads(objective, chosen)
    try:
        check(package, chosen.kind)
    except RenderError as error:
        raise InvalidInput("FAMILY", str(error)) from None
    instance = package.family.problem(problem, chosen.kind)
    package.family.check_device(instance, chosen)
    space = package.family.space(instance, chosen, objective)
    return package, chosen, package.family.candidate(parse_config(config, space), instance, chosen, objective)


def _refuse_several(problem: str) -> None:
    from evo.text.assignments import split_shapes

    if problem and len(split_shapes(problem)) > 1:
        raise InvalidInput("--problem", "contains several shapes; use one shape, or use `kernel-evo search`")


def _refuse_threads(objective: "Objective", device: "Device") -> None:
    cores = int(device.limits.get("cores", objective.threads))
    if kind_of(device.kind).on_host and objective.threads > cores:
        raise InvalidInput("--threads", f"{objective.threads} is out of range; accepted: 1 … {cores}")
