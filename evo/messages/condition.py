"""How workers and their devices are doing, in the same words on terminal and page."""

from collections.abc import Sequence
from datetime import UTC, datetime

from evo.device import Device
from evo.device.requirements import Requirements
from evo.messages.view import ProvingView, SlotView, WorkerView
from evo.text.shell import command
from evo.text.wording import duration_text

NOTHING = Requirements()
SILENT_S = 45.0
"""A worker not heard of for longer is taken to be gone."""


def worker_text(worker: WorkerView, now: datetime | None = None) -> str:
    """``working``, ``drained``, ``left``, ``silent for 3 min 05 s``; and what troubles it."""
    silence_s = silence(worker, now)
    if worker.left_at is not None:
        return "left"
    state = "drained" if worker.drain else "here"
    if silence_s > SILENT_S:
        state = f"silent for {duration_text(silence_s)}"
    return state if worker.note is None else f"{state}; {worker.note}"


def silence(worker: WorkerView, now: datetime | None = None) -> float:
    """Return the seconds since a worker was heard of: as the service counts them, unless `now` is given."""
    if now is None and worker.silent_s is not None:
        return worker.silent_s
    return ((now or datetime.now(UTC)) - worker.seen_at).total_seconds()


def slot_text(slot: SlotView) -> str:
    """``working``, ``waiting: process 12 holds the device``, ``set aside: it fell off the bus``."""
    if slot.quarantined_at is not None:
        return f"set aside: {slot.quarantine_reason}"
    if slot.activity is None:
        return "–"
    return slot.activity if slot.detail is None else f"{slot.activity}: {slot.detail}"


def proving_text(proving: ProvingView) -> str:
    """``confirming trial 19 for 12 s: timing, process 2 of 5 at most``."""
    what = "turning the champion's switches" if proving.trial is None else f"confirming trial {proving.trial}"
    if proving.since is None:
        return f"{what}: waits for a worker"
    what = what if proving.elapsed_s is None else f"{what} for {duration_text(proving.elapsed_s)}"
    return what if proving.detail is None else f"{what}: {proving.detail}"


def hindrance(
    workers: Sequence[WorkerView],
    device: Device,
    requirements: Requirements = NOTHING,
    *,
    now: datetime | None = None,
) -> str | None:
    """Why a search on this device does not get on, or None when somebody works for it.

    Workers without such a device do not count; nor does a search for which there was never a worker.
    """
    offering = [worker for worker in workers if any(_same(each, device) for each in worker.devices)]
    if not offering:
        return None
    there = [worker for worker in offering if worker.left_at is None]
    if not there:
        return "Its worker has left: nothing is measured until one is back."
    silence_s = min(silence(worker, now) for worker in there)
    if silence_s > SILENT_S:
        return f"No worker has been heard of for {silence_s:.0f} s: nothing is measured until one is back."
    heard = [worker for worker in there if silence(worker, now) <= SILENT_S]
    lacking = [requirements.lacking(each) for worker in heard for each in worker.devices if _same(each, device)]
    if None not in lacking:
        return f"No connected {device.model} has what the search requires: one {lacking[0]}."
    reasons = [_obstacle(worker, device) for worker in heard]
    return None if None in reasons else reasons[0]


def _obstacle(worker: WorkerView, device: Device) -> str | None:
    """What keeps one worker from measuring, on the best of its devices."""
    if worker.drain:
        return f"Worker {worker.name} is drained: `{command('workers', 'resume', worker.name)}` lets it work again."
    fitting = {each.uuid for each in worker.devices if _same(each, device)}
    found = [_slot_obstacle(worker, device, slot) for slot in worker.slots if slot.device_uuid in fitting]
    return None if not found or None in found else found[0]


def _slot_obstacle(worker: WorkerView, device: Device, slot: SlotView) -> str | None:
    if slot.quarantined_at is not None:
        way_out = command("workers", "clear", worker.name, slot.device_uuid)
        return f"{device.model} is set aside: {slot.quarantine_reason}. Once it is mended: {way_out}"
    if slot.activity == "waiting":
        return f"{device.model} of {worker.name} is not measuring now: {slot.detail or slot.activity}."
    return None


def _same(one: Device, other: Device) -> bool:
    return (one.kind, one.model) == (other.kind, other.model)
