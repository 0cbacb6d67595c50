"""A runner that ends during its start is replaced. No candidate fails, because no candidate has run yet."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evo.promotion.policy import Policy
from evo.trial.outcome import Crashed
from workers.build.families import Assignment
from workers.runner import pool, process
from workers.runner.child import ChildDiedError
from workers.runner.pool import Runners, TroubleError, UnfitError
from workers.runner.process import Runner
from workers.runner.protocol import Compare, Ready, Refused, Reply, Trouble, Verify
from workers.system.device_lock import GaveUp
from workers.system.exhaustion import MachineExhausted

WORK = cast(
    Assignment,
    SimpleNamespace(
        terms=SimpleNamespace(
            search_id=1,
            policy=Policy(),
            objective=SimpleNamespace(threads=1),
            device=SimpleNamespace(model="Toy CPU"),
            family=SimpleNamespace(name="toy"),
        )
    ),
)


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[list[Callable[[Runners], None]]], Runners]:
    """Return a function that creates runners. Their first starts fail in the given ways; later starts succeed."""

    def prepared(happens: list[Callable[[Runners], None]]) -> Runners:
        def ask(child: object, request: object, limit_s: float) -> Reply:
            if request != "prove" and happens:
                happen = happens.pop(0)
                happen(made)
                raise ChildDiedError("was killed by signal SIGKILL", killed=happen is killed)
            return Ready()

        methods = {"ask": ask, "interrupt": lambda _: None, "kill": lambda _: None}
        fake: Any = type("Child", (), {"__init__": lambda self, threads: None, **methods})
        monkeypatch.setattr(pool, "Child", fake)
        monkeypatch.setattr(pool, "Prove", lambda **_: "prove")
        monkeypatch.setattr(pool, "open_request", lambda *_, **__: "open")
        made = Runners(tmp_path)
        return made

    return prepared


def killed(_: Runners) -> None:
    """Simulate a start during which another process kills the runner."""


def died(_: Runners) -> None:
    """Simulate a start during which the runner exits."""


@pytest.mark.parametrize("end", [killed, died])
def test_runner_that_ends_during_its_start_is_replaced(
    end: Callable[[Runners], None],
    opening: Callable[[list[Callable[[Runners], None]]], Runners],
) -> None:
    assert opening([end]).fresh(WORK)


def test_runner_that_exits_twice_during_its_start_is_reported(
    opening: Callable[[list[Callable[[Runners], None]]], Runners],
) -> None:
    with pytest.raises(TroubleError, match=r"reference\.py: the process .* SIGKILL"):
        opening([died, died]).fresh(WORK)


def test_runner_killed_during_its_start_is_started_up_to_three_times(
    opening: Callable[[list[Callable[[Runners], None]]], Runners],
) -> None:
    assert opening([killed, killed]).fresh(WORK)
    with pytest.raises(TroubleError, match=r"reference\.py: the process .* SIGKILL"):
        opening([killed, killed, killed]).fresh(WORK)


@pytest.mark.parametrize("kills", [1, 2, 3])
def test_device_is_unfit_only_after_three_kills_during_its_check(
    opening: Callable[[list[Callable[[Runners], None]]], Runners], monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    runners_, left = opening([]), [killed] * kills

    def prove(child: object, request: object, limit_s: float) -> Reply:
        if request == "prove" and left:
            left.pop()
            raise ChildDiedError("killed by SIGKILL", killed=True)
        return Ready()

    fake: Any = vars(pool)["Child"]
    fake.ask = prove
    if kills < 3:
        assert runners_.fresh(WORK)
        return
    with pytest.raises(UnfitError, match="Toy CPU: a known-good kernel crashes: killed by SIGKILL"):
        runners_.fresh(WORK)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Trouble(reason="free disk space", exhausted=True), MachineExhausted),
        (Trouble(reason="reference.py, import: SyntaxError"), TroubleError),
        (Refused(outcome=Crashed(stage="open", reason="the device was lost")), TroubleError),
    ],
)
def test_runner_that_fails_to_start_is_ended(
    opening: Callable[[list[Callable[[Runners], None]]], Runners],
    monkeypatch: pytest.MonkeyPatch,
    reply: Reply,
    error: type[Exception],
) -> None:
    runners, started, ended = opening([]), list[object](), list[object]()
    fake: Any = vars(pool)["Child"]
    monkeypatch.setattr(fake, "__init__", lambda self, threads: started.append(self))
    monkeypatch.setattr(fake, "ask", lambda _, request, limit_s: Ready() if request == "prove" else reply)
    monkeypatch.setattr(fake, "kill", lambda self: ended.append(self))  # noqa: PLW0108 - it must be a method
    with pytest.raises(error):
        runners.fresh(WORK)
    assert started == ended != []


def test_interrupted_runner_is_not_restarted(
    opening: Callable[[list[Callable[[Runners], None]]], Runners],
) -> None:
    waiting: list[Callable[[Runners], None]] = [Runners.interrupt, killed]
    runners = opening(waiting)
    for _ in range(2):  # the second call must not start a runner for the same job
        with pytest.raises(GaveUp):
            runners.fresh(WORK)
    assert waiting == [killed]


def test_candidate_that_exhausts_memory_during_verification_counts_as_crashed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_bench: object, _request: object) -> None:
        raise MemoryError

    monkeypatch.setattr(process, "verify_candidate", full)
    monkeypatch.setattr(process, "compare", full)
    runner = Runner()
    runner._bench = SimpleNamespace()  # type: ignore[assignment]
    reply = runner.answer(Verify(candidate="candidate", kernels={}))
    assert isinstance(reply, Refused)
    assert isinstance(reply.outcome, Crashed)
    assert isinstance(runner.answer(Compare(series={}, rounds=1, baselines=False, budget_s=1.0)), Trouble)
