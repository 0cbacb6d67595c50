"""The commands ``workers list``, ``drain``, ``resume``, ``quarantine`` and ``clear`` show and manage workers."""

from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Json, examples
from evo.cli.console.output import console, print_json, table
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import Conflict, NotFound
from evo.text.suggestion import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from evo.client import Client
    from evo.messages.view import WorkerView

WorkerName = Annotated[
    str, typer.Argument(metavar="WORKER", help="Name or id, as listed by `kernel-evo workers list`.")
]
DeviceUuid = Annotated[
    str, typer.Argument(metavar="DEVICE", help="UUID of the device, a prefix of the UUID, or the device's model.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="List the workers, and control which of them get work.", invoke_without_command=True)
    group.callback()(_list_by_default)
    group.command("list", epilog=examples("kernel-evo workers", "kernel-evo workers list --json"))(list_workers)
    group.command(epilog=examples("kernel-evo workers drain l4-vm --url https://evo.example.org"))(drain)
    group.command(epilog=examples("kernel-evo workers resume l4-vm"))(resume)
    group.command(epilog=examples('kernel-evo workers quarantine l4-vm "NVIDIA L4" --reason "Xid 79"'))(quarantine)
    group.command(epilog=examples("kernel-evo workers clear l4-vm GPU-5f1c"))(clear)
    app.add_typer(group, name="workers")


@on_service
def _list_by_default(context: typer.Context, *, where: ServiceRef, as_json: Json = False) -> None:
    """List the workers, or control which workers get work."""
    if context.invoked_subcommand is None:
        _list(where, as_json=as_json)


@on_service
def list_workers(*, where: ServiceRef, as_json: Json = False) -> None:
    """List the workers with their devices, the most recently seen first."""
    _list(where, as_json=as_json)


def _list(where: ServiceRef, *, as_json: bool) -> None:
    with connect(where) as connection:
        found = connection.client.workers().items
    if as_json:
        print_json(found)
    else:
        _print(found)


@on_service
def drain(worker: WorkerName, *, where: ServiceRef, as_json: Json = False) -> None:
    """Drain a worker, e.g. before an upgrade: it finishes its jobs, and gets no more jobs until it is restarted or
    resumed.
    """
    _decide(where, worker, lambda client, found: client.drain(found.id), as_json=as_json)


@on_service
def resume(worker: WorkerName, *, where: ServiceRef, as_json: Json = False) -> None:
    """Resume giving work to a drained worker."""
    _decide(where, worker, lambda client, found: client.resume_worker(found.id), as_json=as_json)


@on_service
def quarantine(
    worker: WorkerName,
    device: DeviceUuid,
    *,
    reason: Annotated[str, typer.Option(help="Reason for the quarantine, shown with the device.")],
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Quarantine a device. It gets no work until it is cleared."""

    def isolate(client: "Client", found: "WorkerView") -> "WorkerView":
        return client.quarantine(found.id, device_uuid(found, device), reason=reason)

    _decide(where, worker, isolate, as_json=as_json)


@on_service
def clear(
    worker: WorkerName,
    device: DeviceUuid,
    *,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Clear a quarantined device, so that it gets work again."""

    def trust(client: "Client", found: "WorkerView") -> "WorkerView":
        return client.clear(found.id, device_uuid(found, device))

    _decide(where, worker, trust, as_json=as_json)


def named(name: str, workers: "Iterable[WorkerView]") -> "WorkerView":
    """Return the worker whose id is `name` or, if there is none, the worker whose name is `name`.

    A worker that has left is returned only if no connected worker matches.

    Raises:
        NotFound: no worker has the id or the name.
        Conflict: several workers have the name.
    """
    known = list(workers)
    found = [each for each in known if each.id == name] or [each for each in known if each.name == name]
    found = [each for each in found if each.left_at is None] or found
    if not found:
        raise NotFound(unknown(name, {each.name for each in known}, "workers"))
    if len(found) > 1:
        raise Conflict(f"{len(found)} workers are named {name}; use the id of one: {', '.join(w.id for w in found)}")
    return found[0]


def device_uuid(worker: "WorkerView", wanted: str) -> str:
    """Return the UUID of the device that the user names.

    Args:
        wanted: the device's UUID, the beginning of its UUID, or its model, in upper or lower case.

    Raises:
        NotFound: no device matches.
        Conflict: several devices match.
    """
    text = wanted.lower()
    fitting = [each for each in worker.devices if each.uuid.lower().startswith(text) or each.model.lower() == text]
    if len(fitting) == 1:
        return fitting[0].uuid
    listed = ", ".join(f"{each.uuid} ({each.model})" for each in worker.devices) or "none"
    if fitting:
        raise Conflict(f"{wanted} matches several devices of worker {worker.name}; use the UUID of one: {listed}")
    raise NotFound(f"worker {worker.name} has no device {wanted}; its devices: {listed}")


def _decide(
    where: ServiceRef, name: str, decision: "Callable[[Client, WorkerView], WorkerView]", *, as_json: bool
) -> None:
    with connect(where) as connection:
        client = connection.client
        after = decision(client, named(name, client.workers().items))
    if as_json:
        print_json(after)
    else:
        _print([after])


def _print(workers: "Iterable[WorkerView]") -> None:
    from rich.text import Text

    from evo.messages.worker_state import slot_text, worker_text

    rows = table("worker", "id", "state", "device", "uuid", "does")
    for worker in workers:
        slots = {slot.device_uuid: slot for slot in worker.slots}
        head = (worker.name, worker.id, worker_text(worker))
        for index, device in enumerate(worker.devices):
            shown = head if index == 0 else ("", "", "")
            does = slot_text(slots[device.uuid]) if device.uuid in slots else "–"
            rows.add_row(*(Text(cell) for cell in (*shown, device.model, device.uuid, does)))
        if not worker.devices:
            rows.add_row(*(Text(cell) for cell in (*head, "–", "–", "–")))
    console().print(rows if rows.row_count else "No worker has connected yet. Start one: kernel-evo worker --url URL")
