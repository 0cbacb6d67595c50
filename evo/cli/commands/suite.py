"""The commands ``suite record`` and ``suite show`` record the calls of a program as a suite, and show suites."""

from pathlib import Path
from typing import Annotated

import typer

from evo.cli.arguments.options import Force, Json, examples, named_path
from evo.cli.console.output import console, print_json, table, written
from evo.errors import EvoError, NotFound
from evo.text.shell import command
from evo.text.wording import count_text, spaced_text


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Suites: problems that are searched together.")
    group.command(
        epilog=examples("kernel-evo suite record ./infer.py --to model.toml"),
        context_settings={"ignore_unknown_options": True},
    )(record)
    group.command(epilog=examples("kernel-evo suite show zoo", "kernel-evo suite show ./model.toml"))(show)
    app.add_typer(group, name="suite", no_args_is_help=True)


def record(
    script: Annotated[
        Path, typer.Argument(parser=named_path, metavar="SCRIPT", help="Python program that uses PyTorch.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENTS]…", help="Arguments of the program.")
    ] = None,
    *,
    to: Annotated[Path, typer.Option(dir_okay=False, metavar="FILE", help="Suite file to write.")] = Path("suite.toml"),
    force: Force = False,
) -> None:
    """Run a PyTorch program, and write a suite of the calls that a family can compute. The weight of a problem is its
    number of calls.

    The suite contains calls of scaled_dot_product_attention, linear, rms_norm, layer_norm and softmax by any module,
    calls of modules whose class name ends in RMSNorm, and the SwiGLU of modules with gate_proj, up_proj and down_proj.
    Calls that no family computes are listed with the reason.
    """
    from evo.cli.files.writing import require_place, shown_path, write_file, writing_to
    from evo.cli.session.watching import watch

    require_place(to, force=force)
    recorder, trouble = watch(script, arguments or [])
    out = console()
    for (function, reason), count in recorder.skipped.most_common():
        out.print(f"not recorded: {count_text(count, 'call')} of {function} ({reason})")
    if not recorder.counts:
        why = "the program called no supported PyTorch function in this process"
        if recorder.skipped:
            why = "no built-in family can compute the calls listed above"
        if trouble:
            why = f"the program failed ({trouble})"
        raise NotFound(f"no call was recorded: {why}")
    with writing_to(to):
        write_file(to, recorder.suite())
    total = sum(recorder.counts.values())
    out.print(written(to, f": {count_text(len(recorder.counts), 'problem')} of {count_text(total, 'call')}"))
    out.print(f"\nSearch it:  {command('search', '--suite', shown_path(to))}", markup=False)
    if trouble is not None:
        raise EvoError(f"{script} failed after the recorded calls: {trouble}")


def show(
    suite: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A built-in suite, or a TOML file.")],
    *,
    as_json: Json = False,
) -> None:
    """List the calls of a suite.

    If problem fields have several values (a list or a range), each combination of these values is a separate call.
    """
    from templates.suites import find

    found = find(suite)
    if as_json:
        print_json({"name": found.name, "goal": found.goal, "calls": [vars(call) for call in found.calls]})
        return
    rows = table("call", "family", "problem", ">weight")
    for call in found.calls:
        rows.add_row(call.name, call.family, spaced_text(call.problem), f"{call.weight:g}")
    console().print(rows)
