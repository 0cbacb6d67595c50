"""Pool of runners: starts one runner per search on demand, and replaces it after a fault."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import structlog

from evo.errors import CannotJudge, EvoError
from evo.promotion.policy import Policy
from evo.trial.explain import detail_text
from evo.trial.outcome import Crashed, LaunchFailed, Outcome, ReferenceFailed, TimedOut
from workers.build.families import Assignment
from workers.runner.child import Ahead, Child, ChildDiedError, ChildTimeoutError
from workers.runner.killed import MOST_ATTEMPTS
from workers.runner.plan import imports, open_request
from workers.runner.protocol import Draw, Load, Open, Prepare, Prove, Ready, Refused, Reply, Request, Trouble, Unfit
from workers.system.exhaustion import MachineExhausted
from workers.system.interruption import Interruption
from workers.system.seconds import Seconds

R = TypeVar("R", bound=Reply)

OPEN_SHARE = 4
"""Time limit for importing reference.py and computing inputs and expected outputs, as a multiple of the time limit for
verifying one candidate.
"""

LEAST_OPEN_S = 60.0
"""Minimum of the time limit that `OPEN_SHARE` determines, in seconds. Imports take seconds on a busy machine."""

PROVE_S = 60.0
"""Time limit in seconds for opening the device and running a known-good kernel. A GPU's driver takes seconds on a busy
machine.
"""

SPARE_THREADS = 1
"""Number of threads of the standby runner, which most searches need. A running process cannot change its number."""

SLOW_OPEN_S = 5.0
"""Seconds after which a log line states why a runner is not ready yet."""

_LOG = structlog.get_logger()

_OPENINGS = 2
"""Maximum number of attempts to open a runner that crashes without being killed from outside."""

MAX_TRIALS = 500
"""Maximum number of trials per runner. Memory accumulates in a runner, because binaries stay loaded."""

_KEPT = 2


class CandidateFault(EvoError, RuntimeError):
    """Raised if a candidate failed. Its runner is no longer trusted."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(detail_text(outcome))
        self.outcome = outcome


class UnfitError(EvoError, RuntimeError):
    """Raised if the device is faulty, so that no candidate can be evaluated on it."""


class _UnprovenError(EvoError, RuntimeError):
    """Raised if a runner failed on a known-good kernel."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(detail_text(outcome))
        self.outcome = outcome


class TroubleError(EvoError, RuntimeError):
    """Raised if the family or the machine is faulty. No candidate can be evaluated until the fault is repaired."""


class ReferenceTroubleError(TroubleError, CannotJudge):
    """Raised if the family's inputs() or reference() fails or exceeds the time limit, whatever the candidate."""


def ask(child: Child, request: Request, expected: type[R], *, stage: str, limit_s: float) -> R:
    """Send a request to a runner and return its reply.

    Args:
        expected: type of the reply if the request succeeds.
        stage: stage of the trial, for the outcome if the runner dies or times out.
        limit_s: time limit in seconds.

    Raises:
        CandidateFault: the candidate was refused, or the runner died or timed out while running it.
        UnfitError: the device is at fault.
        MachineExhausted: the disk of this machine is full, over a quota, read-only or mounted ``noexec``.
        TroubleError: the family or the machine is at fault.
    """
    try:
        reply = child.ask(request, limit_s)
    except ChildTimeoutError:
        raise CandidateFault(TimedOut(stage=stage, limit_s=limit_s)) from None
    except ChildDiedError as error:
        killed: Literal["runner"] | None = "runner" if error.killed else None
        raise CandidateFault(Crashed(stage=stage, reason=str(error), killed=killed)) from None
    match reply:
        case Refused():
            raise CandidateFault(reply.outcome)
        case Trouble(exhausted=True):
            raise MachineExhausted(f"this machine cannot verify or measure candidates: {reply.reason}")
        case Trouble():
            raise TroubleError(reply.reason)
        case Unfit():
            raise UnfitError(reply.reason)
        case _ if isinstance(reply, expected):
            return reply
    raise TroubleError(f"the runner replied with {reply.kind} instead of {expected.__name__.lower()}")


def outcome_of(error: CandidateFault | TroubleError) -> Outcome:
    """Return the outcome of a candidate that failed, or that could not be evaluated."""
    if isinstance(error, CandidateFault):
        return error.outcome
    reason = str(error)
    return ReferenceFailed(reason=reason) if isinstance(error, ReferenceTroubleError) else LaunchFailed(reason=reason)


def open_limit_s(policy: Policy) -> float:
    """Return the time limit in seconds for importing reference.py and computing inputs and expected outputs."""
    return max(LEAST_OPEN_S, OPEN_SHARE * policy.verify_timeout_s)


@contextmanager
def _telling(work: Assignment, limit_s: float) -> Iterator[None]:
    """Log that reference.py is slow if the ``with`` block takes more than `SLOW_OPEN_S` seconds."""
    facts = {"family": work.terms.family.name, "waiting_for": "inputs() and reference()", "limit_s": limit_s}
    timer = threading.Timer(SLOW_OPEN_S, partial(_LOG.info, "reference.slow", **facts))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _worth_another(outcome: Outcome, attempt: int) -> bool:
    """Return True if the runner crashed while it was opened, and attempts remain."""
    if not isinstance(outcome, Crashed):
        return False
    return attempt < (MOST_ATTEMPTS if outcome.killed is not None else _OPENINGS)


def _unproven(outcome: Outcome) -> str:
    match outcome:
        case TimedOut(limit_s=limit_s):
            return f"a known-good kernel does not end within {limit_s:g} s"
        case Crashed(reason=reason):
            return f"a known-good kernel crashes: {reason}"
    return f"a known-good kernel has the outcome {outcome.kind}"


def _not_opened(outcome: Outcome) -> str:
    match outcome:
        case TimedOut(limit_s=limit_s):
            return (
                f"reference.py: inputs() and reference() did not end within {limit_s:g} s; make them faster, or "
                "increase verify_timeout_s in the policy, which determines this limit"
            )
        case Crashed(reason=reason):
            return f"reference.py: the process that runs inputs() and reference() crashed: {reason}"
    return f"the runner could not be opened: {outcome.kind}"


class Runners:
    """Opens, keeps and ends runners.

    Only one thread may open runners. `prepare` and `interrupt` may be called from any thread.

    Args:
        folder: cache folder of the worker. Runners read expected outputs from it.

    Attributes:
        interruption: object that ends the runner and all other processes of the current job, such as compilers,
            profilers and sanitizers.
        opening: durations in seconds of the steps in which the last runner was started and opened.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, Child] = OrderedDict()
        self._trials: Counter[int] = Counter()
        self._busy: Child | None = None
        self._ahead: list[Ahead] = []
        self._spare: Ahead | None = None
        self._starting = threading.Lock()
        self.opening = Seconds()
        self.interruption = Interruption()

    def stand_by(self, modules: tuple[str, ...]) -> None:
        """Start a standby runner, which imports the given modules and waits for any search."""
        with self._starting:
            if self._spare is None:
                self._spare = Ahead(
                    Child(threads=SPARE_THREADS),
                    Load(modules=modules),
                    limit_s=PROVE_S,
                    interruption=self.interruption,
                )

    def settle(self) -> None:
        """Wait until the standby runner has imported its modules and is idle."""
        if self._spare is not None:
            self._spare.wait()

    def of(self, work: Assignment) -> Child:
        """Return the runner of a search for its next trial. If the search has no usable runner, open a new one.

        Only the `_KEPT` searches that used this method last keep their runners. Other runners are ended.

        Raises:
            TroubleError: the runner cannot be opened.
            UnfitError: a known-good kernel fails on the device.
            GaveUp: the job was interrupted.
        """
        child = self._kept.pop(work.terms.key, None)
        if child is not None and (not child.usable or self._trials[child.pid] >= MAX_TRIALS):
            child.kill()
            child = None
        child = child or self.fresh(work, keeps_memory=True)
        self._trials[child.pid] += 1
        self._kept[work.terms.key] = self._busy = child
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)[1].kill()
        self.interruption.check()
        return child

    def fresh(
        self,
        work: Assignment,
        *entropy: int,
        process: int = 0,
        modules: tuple[str, ...] = (),
        another: bool = False,
        keeps_memory: bool = False,
    ) -> Child:
        """Return an open runner that has not been used before. The caller must end the runner.

        If the runner crashes while it is opened, another runner is started: up to `_OPENINGS` runners in total, or
        `MOST_ATTEMPTS` if the runners were killed from outside.

        Args:
            entropy: numbers that are appended to each seed, so that the runner draws new inputs.
            process: number of the process within a job, if several processes use the same inputs.
            modules: Python modules that the runner imports in advance.
            another: True to start a standby runner while this runner is opened.
            keeps_memory: True if the runner times no baselines. See `Open`.

        Raises:
            TroubleError: the runner cannot be opened.
            UnfitError: a known-good kernel fails on the device.
            GaveUp: the job was interrupted.
        """
        request = open_request(
            work, self._folder, *entropy, process=process, modules=modules, keeps_memory=keeps_memory
        )
        attempt = 1
        while True:
            try:
                return self._opened(work, request, another=another)
            except _UnprovenError as error:
                outcome = error.outcome
                failure: EvoError = UnfitError(f"{work.terms.device.model}: {_unproven(outcome)}")
            except CandidateFault as fault:  # no candidate was loaded, so the candidate is not at fault
                self.interruption.check()
                outcome, failure = fault.outcome, ReferenceTroubleError(_not_opened(fault.outcome))
            if not _worth_another(outcome, attempt):
                raise failure
            attempt += 1
            _LOG.warning("the runner could not be opened; another runner is started", search=work.terms.search_id)

    def prepare(
        self,
        work: Assignment,
        *entropy: int,
        process: int = 0,
        modules: tuple[str, ...] = (),
        keeps_memory: bool = False,
    ) -> Ahead:
        """Start the runner that `fresh` will return for the same arguments, and let it compute expected outputs.

        If this runner was already prepared, return it. Several runners may be prepared at the same time. `discard` ends
        the prepared runners that were not used.
        """
        request = open_request(
            work, self._folder, *entropy, process=process, modules=modules, keeps_memory=keeps_memory
        )
        if (ahead := self._prepared(request)) is not None:
            return ahead
        ahead = Ahead(
            self._started(work.terms.objective.threads),
            Prepare(terms=request),
            limit_s=open_limit_s(work.terms.policy),
            interruption=self.interruption,
        )
        self._ahead.append(ahead)
        return ahead

    def await_next(self, work: Assignment) -> None:
        """If the runner for the next trial of a search was prepared, wait until it has computed its expected outputs.

        A caller that waits before it locks a GPU allows the runner to use the GPU.
        """
        ahead = self._prepared(open_request(work, self._folder, keeps_memory=True)) if self._ahead else None
        if ahead is not None:
            ahead.wait()

    def await_prepared(self) -> None:
        """Wait until all prepared runners have computed their expected outputs and are idle."""
        for ahead in list(self._ahead):
            ahead.wait()

    def discard(self) -> None:
        """End all prepared runners."""
        while self._ahead:
            self._ahead.pop().discard()

    @contextmanager
    def drawn(self, work: Assignment, *entropy: int) -> Iterator[Child]:
        """Yield a runner that has drawn the inputs of the cases, and can save them. The runner opens no device.

        Raises:
            TroubleError: reference.py cannot draw the inputs.
            CandidateFault: the runner died or timed out while it drew the inputs.
            GaveUp: the job was interrupted.
        """
        self.interruption.check()
        child = self._started(work.terms.objective.threads)
        try:
            with self.interruption.ends(child.interrupt):
                request = Draw(terms=open_request(work, self._folder, *entropy))
                ask(child, request, Ready, stage="open", limit_s=open_limit_s(work.terms.policy))
                yield child
        finally:
            child.kill()

    def _prepared(self, request: Open) -> Ahead | None:
        """Return the runner that was prepared for a request, or None."""
        return next((each for each in list(self._ahead) if each.request == Prepare(terms=request)), None)

    def _take_prepared(self, request: Open) -> Child | None:
        """Return the runner that was prepared for a request. End the runners that were prepared before it.

        If there is no such runner, end all prepared runners, and return None. Also return None if the runner failed.
        """
        while self._ahead:
            ahead = self._ahead.pop(0)
            if ahead.request == Prepare(terms=request):
                return ahead.taken()
            ahead.discard()
        return None

    def _started(self, threads: int) -> Child:
        """Return the standby runner if it has this number of threads and works; otherwise end it and start a runner."""
        with self._starting:
            spare, self._spare = self._spare, None
        if spare is not None and threads != SPARE_THREADS:
            spare.discard()
        elif spare is not None and (child := spare.taken()) is not None:
            return child
        return Child(threads=threads)

    def _opened(self, work: Assignment, request: Open, *, another: bool) -> Child:
        """Start a runner and open it. If this fails, end the runner.

        Raises:
            CandidateFault: the runner died or timed out after the known-good kernel had succeeded.
            _UnprovenError: the runner died or timed out while it ran the known-good kernel.
            EvoError: see `fresh`.
        """
        self.interruption.check()
        self.opening = Seconds()
        with self.opening.of("start"):
            child = self._take_prepared(request) or self._started(work.terms.objective.threads)
        if another and work.terms.objective.threads == SPARE_THREADS:
            self.stand_by(imports(work, baselines=False))
        limit_s = open_limit_s(work.terms.policy)
        try:
            with self.interruption.ends(child.interrupt):
                with self.opening.of("device"):
                    self._prove(child, work)
                with _telling(work, limit_s), self.opening.of("references"):
                    ask(child, request, Ready, stage="open", limit_s=limit_s)
            self._busy = child
            self.interruption.check()
        except TroubleError as error:
            child.kill()
            raise ReferenceTroubleError(str(error)) from None
        except BaseException:
            child.kill()
            raise
        return child

    def _prove(self, child: Child, work: Assignment) -> None:
        """Run a known-good kernel, because an earlier runner that crashed may have left the device broken.

        Raises:
            _UnprovenError: the runner died or timed out while it ran the known-good kernel.
            UnfitError: the known-good kernel gives a wrong result.
        """
        terms = work.terms
        request = Prove(device=terms.device, objective=terms.objective, folder=str(self._folder))
        try:
            ask(child, request, Ready, stage="open", limit_s=PROVE_S)
        except CandidateFault as fault:
            self.interruption.check()
            raise _UnprovenError(fault.outcome) from None

    def drop(self, work: Assignment) -> None:
        """End the runner of a search. The next trial of the search gets a new runner."""
        if child := self._kept.pop(work.terms.key, None):
            child.kill()

    def interrupt(self) -> None:
        """Kill the processes of the current job, and start no more. Waiting callers get an error instead of a reply."""
        self.interruption.interrupt()
        if child := self._busy:
            child.interrupt()

    def close(self) -> None:
        self.discard()
        if self._spare is not None:
            self._spare.discard()
            self._spare = None
        for child in self._kept.values():
            child.kill()
        self._kept.clear()
