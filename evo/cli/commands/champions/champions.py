"""The commands ``champion show``, ``export``, ``rollback``, ``restore`` and ``called``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Json, examples, named_path
from evo.cli.console.output import console, print_json, styled, table, written
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import Conflict, InvalidInput, NotFound
from evo.text.shell import joined
from evo.text.suggestion import unknown
from evo.text.wording import factor_text, spaced_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evo.client import Client
    from evo.messages.view import ChampionView

Why = Annotated[
    str | None,
    typer.Option("--reason", help="Reason, stored with the champion; by default, you are asked for it."),
]
ChampionId = Annotated[
    int,
    typer.Argument(min=1, metavar="CHAMPION", help="Number of the champion, as listed by `kernel-evo champion show`."),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Show, export, roll back and restore promoted configs.")
    group.command(
        epilog=examples(
            "kernel-evo champion show", "kernel-evo champion show 3", "kernel-evo champion show --family sdpa"
        )
    )(show)
    group.command(
        epilog=examples(
            "kernel-evo champion export 3 --to ./champion && python ./champion/kernel.py",
            "kernel-evo champion export 3 5 8 --to ./sdpa && python ./sdpa/dispatch.py",
            "kernel-evo champion export 3 --top 5",
        )
    )(export)
    group.command(epilog=examples('kernel-evo champion rollback 3 --reason "slower under load"'))(rollback)
    group.command(epilog=examples('kernel-evo champion restore 3 --reason "the regression was elsewhere"'))(restore)
    group.command(epilog=examples("python -m fast --json > called.json && kernel-evo champion called called.json"))(
        called
    )
    app.add_typer(group, name="champion", no_args_is_help=True)


@on_service
def show(
    champion: Annotated[
        int | None,
        typer.Argument(
            min=1,
            metavar="[CHAMPION]",
            help="Champion to show with all details; by default, all current champions are listed.",
        ),
    ] = None,
    *,
    family: Annotated[str | None, typer.Option(help="List only champions of this family.")] = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """List the champions, or show one with every rule of its verdict."""
    none = ""
    with connect(where) as connection:
        if champion is None:
            found = connection.client.champions(family=family).items
            none = "" if found else _no_champions_text(connection.client, family)
        else:
            found = (connection.client.champion(champion),)
        search = None if champion is None else connection.client.search(found[0].search_id)
    if as_json:
        print_json(found)
    elif search is None:
        _list(found, none)
    else:
        from evo.cli.console.search_result import champion_text, verdict_text

        console().print(champion_text(found[0], search))
        if found[0].verdict is not None:
            console().print(verdict_text(found[0].verdict))


@on_service
def export(
    champions: Annotated[
        list[int],
        typer.Argument(
            min=1,
            metavar="CHAMPION…",
            help="Champion to export; several champions of a family give one folder whose dispatch.py selects the "
            "kernel by shape.",
        ),
    ],
    *,
    top: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            metavar="N",
            help="Also export the N - 1 next fastest kernels of the same search, marked as not promoted.",
        ),
    ] = 1,
    to: Annotated[
        Path | None,
        typer.Option(parser=named_path, help="Folder to create; by default named after family and champion."),
    ] = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Export a champion as a folder that works without kernel-evo: source, binary, loader, config, evidence and report.

    Only champions of a CPU or a CUDA device can be exported; for other champions, e.g. of a recording, the command ends
    with code 2. For several champions, the folder contains a folder for each champion, and dispatch.py and
    dispatch.json, which select the kernel by shape. With --top, the folder contains a folder for the champion and for
    each runner-up, with the available evidence.
    """
    from evo.cli.files.champion import fetch, ranking, successor, write
    from evo.export.compiled import LOADER
    from evo.export.dispatch import DISPATCH, dispatch_files
    from evo.export.runner_up import ranking_files

    if top > 1 and len(set(champions)) > 1:
        raise InvalidInput(
            "--top",
            "applies to one champion; pass only one, or omit --top to get a folder whose dispatch.py selects the "
            "kernel by shape",
        )
    with connect(where) as connection:
        client = connection.client
        wanted = [client.champion(each) for each in dict.fromkeys(champions)]
        bundles = [fetch(client, each) for each in wanted]
        retired = {each.id: successor(client, each) for each in wanted if not each.current}
        ranked = ranking(client, bundles[0], top - 1) if top > 1 else None
    first, several = bundles[0], len(bundles) > 1
    name = "dispatch" if several else f"champion-{first.champion.id}"
    folder = to or Path(f"{first.champion.family}-{name if top == 1 else f'top-{top}'}")
    start = DISPATCH if several else LOADER
    made = dispatch_files(bundles) if several else first.files()
    if ranked is not None:
        own = f"1-champion-{first.champion.id}"
        made, start = ranking_files(made, ranked.own, own, ranked.others), f"{own}/{LOADER}"
    paths = write(made, folder)
    if as_json:
        print_json({"folder": folder.absolute(), "files": [str(path.relative_to(folder)) for path in paths]})
        return
    out = console()
    for path in paths:
        out.print(written(path))
    for number, current in retired.items():
        now = "its problem has no champion now" if current is None else f"champion {current.id} is current"
        why = next(each.retired_reason for each in wanted if each.id == number)
        out.print(f"Champion {number} is retired ({why}): {now}.")
    if ranked is not None and ranked.bare:
        out.print(f"Not exported, because their binaries are not stored: trial {', '.join(map(str, ranked.bare))}")
    if ranked is not None and len(ranked.others) < top - 1:
        out.print(f"The champion's search has only {len(ranked.others)} other kernels that can be exported.")
    out.print(styled("\nTry it:  ", (joined(("python", str(folder / start))), "bold")))


@on_service
def rollback(
    champion: ChampionId,
    *,
    reason: Why = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Retire the current champion. The champion that it replaced becomes current again."""
    from evo.cli.files.champion import successor

    with connect(where) as connection:
        chosen = connection.client.champion(champion)
        if not chosen.current:
            remedy = f"`kernel-evo champion restore {champion} --reason TEXT` makes it current again"
            raise Conflict(f"champion {champion} is already retired: {chosen.retired_reason}; {remedy}")
        retired = connection.client.rollback(champion, reason=_checked_reason(reason, "rolled back"))
        now = successor(connection.client, retired)
    if as_json:
        print_json({"retired": retired, "current": [] if now is None else [now]})
        return
    console().print(f"Champion {retired.id} is retired: {retired.retired_reason}")
    console().print("Its problem has no champion now." if now is None else f"Champion {now.id} is current again.")


@on_service
def restore(
    champion: ChampionId,
    *,
    reason: Why = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Make a retired champion the current champion again. The evidence of its promotion must still be valid.

    The current champion is retired. The history records both decisions.
    """
    from evo.cli.files.champion import successor

    with connect(where) as connection:
        client = connection.client
        chosen = client.champion(champion)
        if chosen.current:
            raise Conflict(
                f"champion {champion} is already the current champion of its problem; there is nothing to restore"
            )
        present = successor(client, chosen)
        over = None if present is None else present.id
        restored = client.promote(champion, over=over, reason=_checked_reason(reason, "restored"))
        retired = None if over is None else client.champion(over)
    if as_json:
        print_json({"current": [restored], "retired": [] if retired is None else [retired]})
        return
    console().print(f"Champion {restored.id} is current again.")
    if retired is not None:
        console().print(f"Champion {retired.id} is retired: {retired.retired_reason}", markup=False)


@on_service
def called(
    file: Annotated[
        Path,
        typer.Argument(
            parser=named_path,
            metavar="FILE",
            help="File with the output of `python -m fast --json`, where fast is an exported package.",
        ),
    ],
    *,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Store how long a PyTorch program takes to call the kernels of an exported package.

    An exported package measures the time of its own functions and of PyTorch's functions. `champion show` and the
    reports show both times next to the kernel's time.
    """
    from evo.export.called import called_text, check_same, read_measurements

    measured = read_measurements(file)
    with connect(where) as connection:
        client = connection.client
        for each in measured.times:
            check_same(each, client.champion(each.champion))
        stored = [
            client.store_called(
                each.champion,
                called_us=each.called_us,
                torch_us=each.torch_us,
                model=each.machine,
                software=measured.software,
            )
            for each in measured.times
        ]
        kinds = {each.id: client.search(each.search_id).device.kind for each in stored}
    if as_json:
        print_json(stored)
        return
    for champion in stored:
        text = called_text(champion, kinds[champion.id])
        console().print(f"Champion {champion.id} ({champion.subject} {champion.problem_key}): {text}", markup=False)


def _checked_reason(reason: str | None, done: str) -> str:
    """Return the reason for a decision. If no reason was given, ask the user.

    Args:
        done: participle of the decision, e.g. ``rolled back``, used in the question and in the error.

    Raises:
        InvalidInput: the reason is blank, or it is missing and standard input is not a terminal.
    """
    why = (_prompt_reason(done) if reason is None else reason).strip()
    if not why:
        raise InvalidInput("--reason", f"is blank; state why the champion is {done}")
    return why


def _prompt_reason(done: str) -> str:
    if not sys.stdin.isatty():
        raise InvalidInput("--reason", f"is missing; state why the champion is {done}")
    return str(typer.prompt(f"Why is the champion {done}"))


def _list(champions: "Iterable[ChampionView]", none: str) -> None:
    from rich.text import Text

    rows = table(
        *(">champion", "family", "problem", "device", ">time, first process", ">called from PyTorch"),
        *("over the fastest baseline", "promoted"),
    )
    for each in champions:
        verdict, over = each.verdict, "–"
        if verdict is not None and verdict.baseline is not None and verdict.baseline_speedup is not None:
            over = f"{factor_text(verdict.baseline_speedup.estimate)} {verdict.baseline}"
            over += "; slower than every baseline" if verdict.behind_every_baseline else ""
        called = "–" if each.called is None else time_text(each.called.called_us)
        cells = (each.subject, spaced_text(each.problem), each.place, time_text(each.time_us), called, over)
        rows.add_row(str(each.id), *(Text(cell) for cell in cells), f"{each.promoted_at:%Y-%m-%d %H:%M}")
    console().print(rows if rows.row_count else none)


def _no_champions_text(client: "Client", family: str | None) -> str:
    """Return a message that explains why no champion is listed.

    Raises:
        NotFound: there is no family of this name.
    """
    from templates import registry

    if family is None:
        return "There are no champions yet: a search promotes them."
    others = {each.family for each in client.champions().items}
    known = others | {each.name for each in client.families().items} | {each.family.name for each in registry.builtin()}
    if family not in known:
        raise NotFound(unknown(family, known, "families"))
    there = f" Champions of: {', '.join(sorted(others))}" if others else ""
    return f"There are no champions of {family} yet.{there}"
