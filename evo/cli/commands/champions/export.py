"""The command ``export`` writes the champions of a suite as a package."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Json, examples, named_path
from evo.cli.console.output import console, print_json, written
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.device.kind import implemented_kinds
from evo.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evo.client import Client
    from evo.messages.view import ChampionView
    from evo.search.suite import Call, Suite


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo export --suite zoo --to ./fast",
            'kernel-evo export --suite ./model.toml --to ./fast --device "NVIDIA H100 80GB HBM3"',
        ),
    )(export)


@on_service
def export(
    *,
    suite: Annotated[str, typer.Option(metavar="NAME|FILE", help="Suite; the package contains kernels for its calls.")],
    to: Annotated[
        Path,
        typer.Option(
            parser=named_path, help="Folder to create, e.g. ./fast; its name becomes the name of the package."
        ),
    ],
    device: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Include only champions of this device model; by default, of all models."),
    ] = None,
    slower: Annotated[
        bool,
        typer.Option("--slower", help="Include champions that are slower than every baseline."),
    ] = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Write the champions of a suite as a Python package, which needs PyTorch but not kernel-evo.

    The functions of the package have the signatures of torch.nn.functional, and call PyTorch if there is no kernel for
    a call. `patch(model)` makes a model use these functions. `report()` counts the calls without a kernel.
    """
    from evo.cli.files.champion import fetch, write
    from evo.export.called import SERVED
    from evo.export.package import faster, package_files
    from templates.suites import find

    _require_name(to)
    wanted = find(suite)
    with connect(where) as connection:
        client = connection.client
        found = {call.name: list(_champions(client, call, device)) for call in wanted.calls}
        chosen = {
            each.id: each
            for champions in found.values()
            for each in champions
            if each.family in SERVED and (slower or faster(each))
        }
        if not chosen:
            raise NotFound(_no_kernels_text(wanted, found))
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
    out.print(written(to, f": {len(chosen)} kernels for {len(found) - len(left_out)} of {len(found)} calls"))
    for name, reason in left_out.items():
        out.print(f"  without a kernel: {name} ({reason})")
    use = f"python -c 'import {to.name}; print({to.name}.report())'"
    out.print(f"\nUse the package with PyTorch, e.g. in its parent folder:  {use}")


def _champions(client: "Client", call: "Call", device: str | None) -> "Iterator[ChampionView]":
    """Yield the latest champion of a call for each device model."""
    from templates import registry

    family = registry.find(call.family).family
    keys = set[str]()
    for kind in implemented_kinds():
        try:
            keys.add(family.problem_key(family.problem(call.text, kind)))
        except InvalidInput:  # this kind of device does not support the problem
            continue
    models = set[str]()
    for key in sorted(keys):
        for each in client.champions(family=family.name, problem=key, device=device, sort="newest").items:
            if each.device_model not in models:
                models.add(each.device_model)
                yield each


def _require_name(folder: Path) -> None:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", folder.name) is None:
        reason = f"{folder.name!r} is not a Python name, so the package could not be imported"
        raise InvalidInput("--to", f"{reason}; choose a folder such as ./fast")


def _reason(champions: "list[ChampionView]", served: tuple[str, ...]) -> str:
    if not champions:
        return "no champion yet"
    if champions[0].family not in served:
        return f"PyTorch has no function for {champions[0].family}"
    return "its champion is slower than every baseline; --slower exports it"


def _no_kernels_text(suite: "Suite", found: "dict[str, list[ChampionView]]") -> str:
    if any(found.values()):
        return (
            f"no champion of suite {suite.name} can be exported: each is slower than every baseline (--slower exports "
            "it), or PyTorch has no function for its family"
        )
    return f"no call of suite {suite.name} has a champion yet: kernel-evo search --suite {suite.source} finds champions"
