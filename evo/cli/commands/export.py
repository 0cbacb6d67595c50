"""``export``: the champions of a suite as a Python package that takes the place of functions of PyTorch."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Db, Json, Token, Url, examples
from evo.cli.service.locations import Where
from evo.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evo.client import Client
    from evo.messages.view import ChampionView
    from evo.suite import Call, Suite


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo export --suite zoo --to ./fast",
            'kernel-evo export --suite ./model.toml --to ./fast --device "NVIDIA H100 80GB HBM3"',
        )
    )(export)


def export(
    *,
    suite: Annotated[str, typer.Option(metavar="NAME|FILE", help="Suite whose calls the package serves.")],
    to: Annotated[Path, typer.Option(help="Folder to make; its name is the package's, e.g. ./fast.")],
    device: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Only champions of this device model; by default of all.")
    ] = None,
    slower: Annotated[
        bool,
        typer.Option("--slower", help="Also champions that every baseline beats."),
    ] = False,
    url: Url = None,
    token: Token = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Write an importable package of a suite's champions, which needs PyTorch and nothing of kernel-evo.

    Its functions have the signatures of torch.nn.functional and call PyTorch where there is no kernel;
    `patch(model)` lets a model use them, and `report()` counts the calls that found no kernel.
    """
    from evo.cli.console.output import console, print_json
    from evo.cli.files.champion import fetch, write
    from evo.cli.service.connection import connect
    from evo.export.package import SERVED, faster, package_files
    from templates.suites import find

    _require_name(to)
    wanted = find(suite)
    with connect(Where(url=url, token=token, database=db)) as connection:
        client = connection.client
        found = {call.name: list(_champions(client, call, device)) for call in wanted.calls}
        chosen = {
            each.id: each
            for champions in found.values()
            for each in champions
            if each.family in SERVED and (slower or faster(each))
        }
        if not chosen:
            raise NotFound(_nothing(wanted, found))
        made = package_files([fetch(client, each) for each in chosen.values()])
    paths = write(made, to)
    left_out = {
        name: _reason(champions, SERVED)
        for name, champions in found.items()
        if not any(each.id in chosen for each in champions)
    }
    if as_json:
        kernels = sorted(chosen)
        print_json({"folder": to.absolute(), "champions": kernels, "left_out": left_out, "files": len(paths)})
        return
    out = console()
    out.print(f"wrote {to}: {len(chosen)} kernels for {len(found) - len(left_out)} of {len(found)} calls")
    for name, reason in left_out.items():
        out.print(f"  without a kernel: {name} ({reason})")
    out.print(f"\nUse it:  python -c 'import {to.name}; print({to.name}.report())'  from the folder above it")


def _champions(client: "Client", call: "Call", device: str | None) -> "Iterator[ChampionView]":
    """Yield the latest champion of a call for each device model."""
    from evo.device.kind import implemented_kinds
    from templates import registry

    family = registry.find(call.family).family
    keys = set[str]()
    for kind in implemented_kinds():
        try:
            keys.add(family.problem_key(family.problem(call.text, kind)))
        except InvalidInput:  # this kind of device does not take the problem
            continue
    models = set[str]()
    for key in sorted(keys):
        for each in client.champions(family=family.name, problem=key, device=device, sort="newest").items:
            if each.device_model not in models:
                models.add(each.device_model)
                yield each


def _require_name(folder: Path) -> None:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", folder.name) is None:
        raise InvalidInput("--to", f"{folder.name!r} cannot be imported: end in a Python name, e.g. ./fast")


def _reason(champions: "list[ChampionView]", served: tuple[str, ...]) -> str:
    if not champions:
        return "no champion yet"
    if champions[0].family not in served:
        return f"PyTorch has no function for {champions[0].family}"
    return "its champion is slower than every baseline; --slower exports it"


def _nothing(suite: "Suite", found: "dict[str, list[ChampionView]]") -> str:
    if any(found.values()):
        return f"no champion of suite {suite.name} is faster than PyTorch: --slower exports those there are"
    return f"no call of suite {suite.name} has a champion here: kernel-evo search --suite {suite.source} finds them"
