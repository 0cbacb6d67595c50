"""The commands ``serve`` and ``worker`` run the service and the workers of a fleet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.naming import VARIABLES
from evo.cli.arguments.options import ServedDb, examples, named_path
from evo.cli.console.output import console, styled
from evo.cli.service.locations import LocalDatabase, data_folder
from evo.cli.service.options import Token
from evo.cli.service.standby import loading
from evo.device import kinds
from evo.errors import InvalidInput
from evo.text.limits import MOST, refuse_unaddressable
from evo.text.suggestion import unknown

if TYPE_CHECKING:
    from evo.device import DeviceKind

ParentPid = Annotated[int | None, typer.Option(help="End when this parent process ends.", hidden=True)]


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo serve",
            "kernel-evo serve --host 0.0.0.0 --port 8080 --db /srv/evo/kernel-evo.db",
            "kernel-evo serve --public-url https://tools.example.org/evo",
            "kernel-evo serve --db postgresql://evo@db.example.org/evo",
        )
    )(serve)
    app.command(
        epilog=examples(
            "kernel-evo worker --url http://127.0.0.1:8765",
            "kernel-evo worker --url https://evo.example.org --token $TOKEN --kind cuda",
            "kernel-evo worker --url https://evo.example.org --token-file /etc/kernel-evo/token --exit-when-idle 15",
        )
    )(worker)


def serve(
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 accepts connections from other machines.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to listen on; 0 selects any free port.")
    ] = 8765,
    db: ServedDb = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Public URL of the service if it runs behind a proxy, e.g. https://tools.example.org/evo; by default "
            "KERNEL_EVO_PUBLIC_URL.",
        ),
    ] = None,
    parent_pid: ParentPid = None,
) -> None:
    """Run the service, with REST API and pages, until Ctrl-C.

    Only one process can serve an SQLite file. Any number of processes can serve a PostgreSQL database.
    """
    with loading():
        from api.server import serve as serve_until_told
        from api.settings import Settings
        from db.engine.location import Location
        from evo.cli.service.child import follow_parent

    follow_parent(parent_pid)
    location = Location.of(db or LocalDatabase.of(None).database)
    if location.file is not None:
        location = Location.of(LocalDatabase.to_begin(location.file).database)
    of_a_command = parent_pid is not None  # a service that a command started is used only on this machine
    public = {"public_url": public_url} if of_a_command or public_url is not None else {}
    settings = Settings.read(host=host, port=port, db=location, **public)

    def announce(url: str) -> None:
        lines = [(url, "bold")]
        if settings.public_url is not None:
            lines += [(", through its proxy at ", ""), (str(settings.public_url), "bold")]
        console().print(styled(f"kernel-evo serves {settings.db} at ", *lines))

    serve_until_told(settings, announce)


def worker(
    *,
    url: Annotated[str, typer.Option(help="Address of the service to work for.", envvar=VARIABLES["--url"])],
    token: Token = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            parser=named_path,
            metavar="FILE",
            help="File that contains the token or a join token.",
            envvar=VARIABLES["--token-file"],
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="Kind of device to offer, e.g. cpu or cuda; may be repeated. Default: all kinds."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name shown to people; by default the name of the join token, or the host's name."),
    ] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Fixed id of the worker; by default an id stored in --data.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            parser=named_path,
            metavar="FOLDER",
            help="Folder for the worker's identity and undelivered results; by default in the user's data directory.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            parser=named_path,
            metavar="FOLDER",
            help="Folder for cached binaries and expected outputs; by default in the user's cache directory. If the "
            "folder is deleted, no result is lost.",
        ),
    ] = None,
    exit_when_idle: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=MOST,
            metavar="MINUTES",
            help="Minutes without work after which the worker exits, e.g. on a rented machine.",
        ),
    ] = None,
    drain_after: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=MOST,
            metavar="MINUTES",
            help="Minutes after which the worker requests no more work, finishes its jobs, and exits.",
        ),
    ] = None,
    parent_pid: ParentPid = None,
) -> None:
    """Measure kernels for a service on the devices of this machine, until Ctrl-C. The worker needs only outbound HTTP.

    The token may be a join token. A join token is exchanged once for a token of this worker, which is stored in --data.
    """
    with loading():
        from api.operations.logs import configure
        from evo.cli.service.child import follow_parent
        from evo.cli.service.devices import cache_folder
        from workers.daemon.daemon import Settings
        from workers.daemon.daemon import serve as work_until_told

    follow_parent(parent_pid)
    configure("console", "info")
    work_until_told(
        Settings(
            url=url,
            token=_token(token, token_file),
            data=data or data_folder() / "worker",
            cache=cache or cache_folder(),
            kinds=_kinds(kind),
            worker_id=None if id_ is None else refuse_unaddressable("--id", id_),
            name=name,
            exit_when_idle_s=None if exit_when_idle is None else 60 * exit_when_idle,
            drain_after_s=None if drain_after is None else 60 * drain_after,
        )
    )


def _token(option: str | None, file: Path | None) -> str | None:
    """Return the token from the option or the file; None if neither is given.

    A file keeps the token out of the process list.
    """
    if file is None:
        return option
    if option is not None:
        raise InvalidInput("--token-file", "cannot be given together with --token; omit one of them")
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput("--token-file", f"{file} cannot be read ({reason}); use a file with a token") from None
    if not text:
        raise InvalidInput("--token-file", f"{file} is empty; write the token into it")
    return text


def _kinds(names: list[str] | None) -> "list[DeviceKind]":
    for name in names or ():
        if name not in kinds():
            raise InvalidInput("--kind", unknown(name, kinds(), "kinds"))
    return [kind for kind in kinds() if not names or kind in names]
