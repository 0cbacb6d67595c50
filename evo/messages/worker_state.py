"""Describes the state of workers, devices and confirmations, for the terminal and the web pages."""

from collections.abc import Sequence
from datetime import UTC, datetime

from evo.device import Device
from evo.messages.view import ProvingView, SearchView, SlotView, WorkerView
from evo.search.lifecycle import State
from evo.text.shell import command
from evo.text.wording import duration_text

SILENT_S = 45.0
"""Seconds without a message after which a worker counts as gone."""

LONG_S = 5.0
"""Duration of a trial or baseline job, in seconds, from which the progress of a search names the job."""

SERVED: frozenset[State] = frozenset({"running", "stopping", "ablating"})
"""States of a search that may have jobs for workers."""


def worker_text(worker: WorkerView, now: datetime | None = None) -> str:
    """Describe a worker's state and problems, e.g. ``connected``, ``drained`` or ``silent for 3 min 05 s``.

    Args:
        now: current time; None for the time of the service's clock.
    """
    silence_s = silence(worker, now)
    if worker.left_at is not None:
        return "left"
    state = "drained" if worker.drain else "connected"
    if silence_s > SILENT_S:
        state = f"silent for {duration_text(silence_s)}"
    return state if worker.note is None else f"{state}; {worker.note}"


def silence(worker: WorkerView, now: datetime | None = None) -> float:
    """Return the seconds since a worker's last message, on the service's clock unless `now` is given."""
    if now is None and worker.silent_s is not None:
        return worker.silent_s
    return ((now or datetime.now(UTC)) - worker.seen_at).total_seconds()


def is_interrupted(search: SearchView, workers: Sequence[WorkerView]) -> bool:
    """Return True if a search should make progress, but no device of a connected worker takes its jobs."""
    served = any(_serves(worker, device, search) for worker in workers for device in worker.devices)
    return search.state in SERVED and not served


def _serves(worker: WorkerView, device: Device, search: SearchView) -> bool:
    connected = worker.left_at is None and silence(worker) <= SILENT_S and not worker.drain
    aside = any(slot.device_uuid == device.uuid and slot.quarantined_at is not None for slot in worker.slots)
    return connected and not aside and search.fits(device)


def slot_text(slot: SlotView) -> str:
    """Describe a slot, e.g. ``working``, ``waiting: process 12 holds the device`` or ``quarantined: ECC error``."""
    if slot.quarantined_at is not None:
        return f"quarantined: {slot.quarantine_reason}"
    if slot.activity is None:
        return "–"
    return slot.activity if slot.detail is None else f"{slot.activity}: {slot.detail}"


def confirmation_text(proving: ProvingView) -> str:
    """Describe a queued or running confirmation or ablation.

    Example: ``confirming trial 19 (2 of 3 planned) for 12 s: timing, process 2; about 20 s left, about 52 s for all 3
    planned confirmations``.
    """
    what = "ablating the champion" if proving.trial is None else f"confirming trial {proving.trial}"
    what = what if proving.planned == 1 else f"{what} ({proving.number} of {proving.planned} planned)"
    if proving.since is None:
        return f"{what}: waiting for a worker"
    what = what if proving.elapsed_s is None else f"{what} for {duration_text(proving.elapsed_s)}"
    what = what if proving.detail is None else f"{what}: {proving.detail}"
    return what if proving.left_s is None else f"{what}; {_left_text(proving, proving.left_s)}"


def progress_text(search: SearchView) -> str | None:
    """Describe the confirmation, ablation or long job of a search, e.g. ``trial 3 for 40 s: verifying``.

    Return None if there is none. Baselines and trials count as long after `LONG_S`.
    """
    if search.proving is not None:
        return confirmation_text(search.proving)
    working = search.working
    if working is None or working.elapsed_s < LONG_S:
        return None
    what = "timing the baselines" if working.trial is None else f"trial {working.trial}"
    text = f"{what} for {duration_text(working.elapsed_s)}"
    return text if working.detail is None else f"{text}: {working.detail}"


def _left_text(proving: ProvingView, left_s: float) -> str:
    this = f"about {duration_text(left_s)} left" if left_s > 0 else "longer than expected"
    if proving.all_left_s is None or proving.number == proving.planned:
        return this
    return f"{this}, about {duration_text(proving.all_left_s)} for all {proving.planned} planned confirmations"


def worker_obstacle(
    workers: Sequence[WorkerView], search: SearchView, *, now: datetime | None = None, options: str = ""
) -> str | None:
    """Return the reason why no worker serves a search; None if a worker does, or if the search has no jobs.

    Args:
        now: current time; None for the time of the service's clock.
        options: options that select the service, with a leading space. They are appended to commands in the reason.
    """
    if search.state not in SERVED:
        return None
    device = search.device
    offering = [worker for worker in workers if any(map(search.is_for, worker.devices))]
    if not offering:
        return _nowhere(workers, search)
    there = [worker for worker in offering if worker.left_at is None]
    if not there:
        return "The worker of this search has left: nothing is measured until a worker connects."
    silence_s = min(silence(worker, now) for worker in there)
    if silence_s > SILENT_S:
        return f"No worker has sent a message for {silence_s:.0f} s: nothing is measured until a worker connects."
    reachable = [worker for worker in there if silence(worker, now) <= SILENT_S]
    lacking = [
        search.requirements.lacking(each) for worker in reachable for each in worker.devices if search.is_for(each)
    ]
    if None not in lacking:
        return f"No connected {device.model} meets the requirements of the search: one {lacking[0]}."
    reasons = [_single_worker_obstacle(worker, search, options) for worker in reachable]
    return None if None in reasons else reasons[0]


def _nowhere(workers: Sequence[WorkerView], search: SearchView) -> str:
    """Return the reason why a search waits if no worker has its device. The text names a similar device, if any."""
    device, unit = search.device, "" if search.device_uuid is None else f", unit {search.device_uuid},"
    connected = [each for worker in workers if worker.left_at is None for each in worker.devices]
    alike = [each for each in connected if (each.kind, each.model) == (device.kind, device.model)]
    other = next((each.architecture for each in alike if each.architecture != device.architecture), None)
    found = "" if other is None else f" (one has the architecture {other} instead of {device.architecture})"
    start = f"nothing is measured until a worker with this device connects (`{command('worker')}`)"
    return f"No worker has {device.model}{unit}{found}: {start}."


def _single_worker_obstacle(worker: WorkerView, search: SearchView, options: str) -> str | None:
    """Return the reason why a worker does not serve a search; None if at least one of its matching devices does."""
    if worker.drain:
        resume = command("workers", "resume", worker.name)
        return f"Worker {worker.name} is drained: `{resume}{options}` lets it work again."
    fitting = {each.uuid for each in worker.devices if search.is_for(each)}
    found = [
        _slot_obstacle(worker, search.device, slot, options) for slot in worker.slots if slot.device_uuid in fitting
    ]
    return None if not found or None in found else found[0]


def _slot_obstacle(worker: WorkerView, device: Device, slot: SlotView, options: str) -> str | None:
    if slot.quarantined_at is not None:
        remedy = command("workers", "clear", worker.name, slot.device_uuid) + options
        return f"{device.model} is quarantined: {slot.quarantine_reason}. Once it is repaired, run `{remedy}`."
    if slot.activity in {"waiting", "exhausted"}:
        return f"{device.model} of worker {worker.name} is not measuring now: {slot.detail or slot.activity}."
    return None
