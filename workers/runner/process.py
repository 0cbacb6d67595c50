"""The runner process: imports a family's reference.py, and loads, verifies and times candidates.

The guardian (`workers.runner.guardian`) forks the runner. The runner answers one request at a time until the end of its
input. It may crash, hang or be killed at any time, so it holds no data that cannot be recomputed. CPU kernels run in
separate processes (`workers.backends.cpu.kernel_process`).
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evo.errors import EvoError
from evo.trial.outcome import Crashed, InvalidMeasurement, LaunchFailed, Outcome, WrongAnswer
from workers.backends import (
    DeviceLostError,
    DeviceUnfitError,
    InvalidMeasurementError,
    LaunchError,
    Session,
    TrespassError,
)
from workers.build.cache import Cache
from workers.measure.bench import Bench, proven
from workers.measure.cases import verify_candidate
from workers.measure.comparison import compare
from workers.measure.family.expected_output import Arrays
from workers.measure.family.reference import Reference
from workers.measure.prepared import Prepared, import_all
from workers.measure.quick_gate import measure
from workers.measure.verify import HopelessError, WrongAnswerError
from workers.runner import confinement
from workers.runner.protocol import (
    REPLIES,
    REQUESTS,
    Compare,
    Draw,
    Load,
    Measure,
    Open,
    Prepare,
    Prove,
    Ready,
    Refused,
    Reply,
    Request,
    Save,
    Saved,
    Trouble,
    Unfit,
    Verify,
    encode,
)
from workers.system.exhaustion import is_exhaustion, with_remedy


class Runner:
    """Executes requests. Keeps the device session that `Prove` opened, and the bench that `Open` created."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._prepared: Prepared | None = None
        self._drawn: Drawn | None = None
        self._bench: Bench | None = None

    def answer(self, request: Request) -> Reply:
        """Return the reply to one request. Failures are also replies."""
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001 - a bug in kernel-evo is not reported as a crash
            return _failure(error, request)

    def _answer(self, request: Request) -> Reply:
        match request:
            case Prove():
                self._session = proven(request)
            case Load():
                import_all(request.modules)
            case Prepare():
                self._prepared = Prepared.ahead(request)
            case Draw():
                self._drawn = Drawn.of(request.terms)
            case Open() if self._session is not None:
                self._bench = Bench.open(self._prepared_for(request), self._session)
            case Save() if self._drawn is not None:
                return self._drawn.save(request)
            case Verify() | Measure() | Compare() if self._bench is not None:
                return _asked_of(self._bench, request)
            case _:
                return Trouble(reason="a request arrived before the device was opened")
        return Ready()

    def _prepared_for(self, request: Open) -> Prepared:
        """Return the inputs and expected outputs for a request: those computed in advance, or newly computed ones."""
        prepared, self._prepared = self._prepared, None
        return prepared if prepared is not None and prepared.terms == request else Prepared.of(request)


def _asked_of(bench: Bench, request: Verify | Measure | Compare) -> Reply:
    match request:
        case Verify():
            return verify_candidate(bench, request)
        case Measure():
            return measure(bench, request)
        case Compare():
            return compare(bench, request)


def _failure(error: Exception, request: Request) -> Reply:
    """Return the reply to a failed request.

    The reply is `Refused` if the candidate is at fault, `Unfit` if the device is at fault, and `Trouble` if the family
    or the machine is at fault.
    """
    if (outcome := _outcome(error, request)) is not None:
        return Refused(outcome=outcome)
    if isinstance(error, DeviceUnfitError):
        return Unfit(reason=str(error))
    if isinstance(error, MemoryError):
        spent = f"the {request.kind} step ran out of memory; a smaller problem may fit"
        if isinstance(request, Verify | Measure):  # a single candidate was loaded, which must have allocated the memory
            return Refused(outcome=Crashed(stage=request.kind, reason=spent))
        return Trouble(reason=spent)
    step = with_remedy(error, f"the {request.kind} step failed: {type(error).__name__}: {error}")
    return Trouble(reason=str(error) if isinstance(error, EvoError) else step, exhausted=is_exhaustion(error))


def _outcome(error: Exception, request: Request) -> Outcome | None:
    """Return the outcome of the candidate if the candidate caused the error, else None."""
    match error:
        case HopelessError() | WrongAnswerError():
            return error.outcome
        case TrespassError():
            return WrongAnswer(reason=f"{request.kind}: {error}")
        case InvalidMeasurementError():
            return InvalidMeasurement(reason=str(error))
        case LaunchError():
            return LaunchFailed(reason=str(error))
        case DeviceLostError():
            return Crashed(stage=request.kind, reason=str(error), killed="kernel" if error.killed else None)
    return None


def serve(parent: int) -> int:
    """Answer requests until the slot closes the pipe, or the process `parent` ends."""
    channel = confinement.take_channel()
    confinement.die_with(parent)
    confinement.adopt()
    runner, own = Runner(), os.getpid()
    for line in channel.requests:
        reply = runner.answer(REQUESTS.validate_json(line))
        if os.getpid() != own:  # a candidate may have forked this process; the copy must not reply
            os._exit(1)
        channel.replies.write(encode(reply, REPLIES))
        channel.replies.flush()
    return 0


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The first inputs of each case, by case name."""

    inputs: Mapping[str, Arrays]

    @classmethod
    def of(cls, terms: Open) -> "Drawn":
        """Draw the inputs of each case in an `Open` request, with the first seed of the case.

        Raises:
            FamilyError: reference.py violates its contract.
        """
        reference = Reference(Path(terms.reference), terms.family_digest, Cache(Path(terms.folder)))
        with ThreadPoolExecutor(max(1, len(terms.cases))) as pool:
            drawn = pool.map(lambda plan: reference.draw(plan, plan.seeds[0]), terms.cases)
            return cls(inputs={plan.name: inputs for plan, inputs in zip(terms.cases, drawn, strict=True)})

    def save(self, request: Save) -> Saved:
        """Write the inputs of a case to the folder of the request."""
        for name, values in self.inputs[request.case].items():
            (Path(request.folder) / f"{name}.bin").write_bytes(np.ascontiguousarray(values).tobytes())
        return Saved()
