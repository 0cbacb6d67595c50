"""Status texts describe workers, devices, and the reason why a search waits."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evo.cli.commands.fleet.workers import device_uuid, named
from evo.cli.commands.searches import _print_searches
from evo.cli.service.locations import ServiceRef
from evo.errors import Conflict, NotFound
from evo.messages.view import ProvingView, SlotView, WorkerView
from evo.messages.worker_state import confirmation_text, is_interrupted, slot_text, worker_obstacle, worker_text
from evo.search.lifecycle import State
from tests.unit.views import DEVICE, NOW, view

SLOT = SlotView(device_uuid=DEVICE.uuid, activity="working")
WORKER = WorkerView(id="w-1", name="vm", host="h", devices=(DEVICE,), slots=(SLOT,), seen_at=NOW)
GPU = replace(DEVICE, kind="cuda", model="NVIDIA L4", uuid="GPU-5f1c")
ASIDE = replace(SLOT, quarantined_at=NOW, quarantine_reason="Xid 79")


def at(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("worker", "after_s", "text"),
    [
        (WORKER, 10, "connected"),
        (replace(WORKER, drain=True), 10, "drained"),
        (WORKER, 90, "silent for 1 min 30 s"),
        (replace(WORKER, left_at=NOW), 90, "left"),
        (replace(WORKER, note="the disk is full"), 1, "connected; the disk is full"),
    ],
)
def test_worker_status_text_shows_connection_draining_and_note(worker: WorkerView, after_s: float, text: str) -> None:
    assert worker_text(worker, at(after_s)) == text


def test_slot_status_text_shows_the_activity_or_the_quarantine_reason() -> None:
    assert slot_text(SLOT) == "working"
    assert slot_text(replace(SLOT, activity="waiting", detail="process 7 holds it")) == "waiting: process 7 holds it"
    assert slot_text(ASIDE) == "quarantined: Xid 79"
    assert slot_text(SlotView(device_uuid="x")) == "–"


@pytest.mark.parametrize(
    ("workers", "after_s", "said"),
    [
        ([], 0, "No worker has AMD EPYC: nothing is measured until a worker with this device connects"),
        ([replace(WORKER, devices=(GPU,))], 10, "No worker has AMD EPYC"),
        (
            [replace(WORKER, devices=(replace(DEVICE, architecture="arm64"),))],
            10,
            "has the architecture arm64 instead of",
        ),
        ([WORKER], 10, None),
        ([WORKER], 90, "a message for 90 s"),
        ([replace(WORKER, left_at=NOW)], 10, "has left"),
        ([replace(WORKER, left_at=NOW), WORKER], 10, None),
        ([replace(WORKER, drain=True)], 10, "kernel-evo workers resume vm"),
        (
            [replace(WORKER, slots=(ASIDE,))],
            10,
            "Xid 79. Once it is repaired, run `kernel-evo workers clear vm cpu-1`.",
        ),
        ([replace(WORKER, slots=(ASIDE,)), WORKER], 10, None),
        ([replace(WORKER, slots=())], 10, None),
    ],
)
def test_waiting_search_states_why_its_workers_are_unavailable(
    workers: list[WorkerView], after_s: float, said: str | None
) -> None:
    found = worker_obstacle(workers, view(), now=at(after_s))
    assert found is None if said is None else found is not None and said in found


@pytest.mark.parametrize("worker", [replace(WORKER, drain=True), replace(WORKER, slots=(ASIDE,))])
def test_suggested_worker_commands_contain_the_service_options(worker: WorkerView) -> None:
    found = worker_obstacle([worker], view(), now=at(10), options=" --db a.db")
    assert found is not None and re.search(r"kernel-evo workers (resume vm|clear vm cpu-1) --db a\.db", found)


@pytest.mark.parametrize(("unit", "said"), [("cpu-1", None), ("cpu-2", "No worker has AMD EPYC, unit cpu-2,: nothing")])
def test_search_for_one_device_states_that_no_worker_has_the_device(unit: str, said: str | None) -> None:
    found = worker_obstacle([WORKER], view(device_uuid=unit), now=at(10))
    assert found is None if said is None else found is not None and said in found


def test_worker_is_found_by_id_or_by_the_name_of_a_connected_worker() -> None:
    gone = replace(WORKER, id="w-0", left_at=NOW)
    assert named("w-0", [gone, WORKER]) is gone
    assert named("vm", [gone, WORKER]) is WORKER
    assert named("vm", [gone]) is gone
    with pytest.raises(Conflict, match="w-1, w-2"):
        named("vm", [WORKER, replace(WORKER, id="w-2")])
    with pytest.raises(NotFound, match="did you mean `vm`"):
        named("vm2", [WORKER])


def test_device_is_found_by_a_uuid_prefix_or_its_model() -> None:
    worker = replace(WORKER, devices=(DEVICE, GPU, replace(GPU, uuid="GPU-77aa")))
    assert device_uuid(worker, "gpu-5f") == "GPU-5f1c"
    assert device_uuid(worker, "amd epyc") == "cpu-1"
    with pytest.raises(Conflict, match="GPU-77aa"):
        device_uuid(worker, "NVIDIA L4")
    with pytest.raises(NotFound, match="its devices: cpu-1"):
        device_uuid(worker, "tpu")


@pytest.mark.parametrize(
    ("worker", "state", "interrupted"),
    [
        ({}, "running", False),
        ({}, "finished", False),
        ({"seen_at": NOW - timedelta(seconds=90)}, "running", True),
        ({"left_at": NOW}, "stopping", True),
        ({"left_at": NOW}, "paused", False),
        ({"left_at": NOW}, "finished", False),
        ({"devices": (GPU,)}, "running", True),
        ({"drain": True}, "running", True),
        ({"slots": (ASIDE,)}, "running", True),
        ({"slots": (ASIDE,), "devices": (DEVICE, replace(DEVICE, uuid="cpu-2"))}, "running", False),
    ],
)
def test_search_without_a_connected_worker_is_shown_as_interrupted(
    worker: dict[str, Any], state: State, interrupted: bool
) -> None:
    given = replace(WORKER, **{"devices": (DEVICE,), "silent_s": 90.0 if "seen_at" in worker else 1.0, **worker})
    assert is_interrupted(view(state=state), [given]) is interrupted


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (
            {"drain": True},
            "Search 3 waits. Worker vm is drained: `kernel-evo workers resume vm --url http://s` lets it work again.",
        ),
        ({"slots": (ASIDE,)}, "Search 3 waits. AMD EPYC is quarantined: Xid 79. Once it is repaired, run `kernel-evo"),
        (
            {"slots": (replace(SLOT, activity="waiting", detail="process 7 holds the device"),)},
            "Search 3 waits. AMD EPYC of worker vm is not measuring now: process 7 holds the device.",
        ),
        ({"left_at": NOW}, "No worker serves search 3 now. Continue it: kernel-evo worker --url http://s"),
    ],
)
def test_list_of_searches_states_why_a_search_waits(
    worker: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_searches([view()], [replace(WORKER, silent_s=1.0, **worker)], ServiceRef(url="http://s"))
    assert said in " ".join(capsys.readouterr().out.split())


def test_confirmation_status_states_its_number_and_remaining_time() -> None:
    proving = ProvingView(job="confirm", trial=19, since=NOW, elapsed_s=12.0, detail="timing, process 2")
    assert confirmation_text(proving) == "confirming trial 19 for 12 s: timing, process 2"
    known = replace(proving, number=2, planned=3, left_s=20.0, all_left_s=52.0)
    words = "confirming trial 19 (2 of 3 planned) for 12 s: timing, process 2; about 20 s left"
    assert confirmation_text(known) == f"{words}, about 52 s for all {known.planned} planned confirmations"
    assert confirmation_text(replace(known, number=3, all_left_s=20.0)) == words.replace("2 of 3", "3 of 3")
    late = replace(known, number=3, left_s=0.0, all_left_s=0.0)
    assert confirmation_text(late).endswith("process 2; longer than expected")
    queued = replace(known, since=None, elapsed_s=None, detail=None, left_s=None, all_left_s=None)
    assert confirmation_text(queued) == "confirming trial 19 (2 of 3 planned): waiting for a worker"
