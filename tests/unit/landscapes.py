"""Small spaces of every shape, outcomes of every kind, and synthetic kernel times."""

import zlib
from collections.abc import Callable

import numpy as np

from evo.space import Constraint, Space, Tunable
from evo.space.expression import Expression
from evo.strategy import Strategy
from evo.trial import Trial
from evo.trial.history import History
from evo.trial.outcome import (
    Abandoned,
    Cancelled,
    CompileFailed,
    Crashed,
    Impossible,
    InvalidConfig,
    LaunchFailed,
    Measured,
    Outcome,
    OverResources,
    Pruned,
    TimedOut,
    WrongAnswer,
)
from evo.trial.timing import Timing

Evaluate = Callable[[Space, Trial], Outcome]


def fits(text: str) -> Constraint:
    return Constraint(expression=Expression.parse(text, "constraints"), because="the tile must fit")


def mixed() -> Space:
    return Space(
        [
            Tunable(name="TILE", values=[16, 32, 48, 64, 96, 128]),
            Tunable(name="STAGES", values=[1, 2, 3]),
            Tunable(name="LAYOUT", values=["row", "swizzled", "padded"]),
            Tunable(name="UNROLL", values=[False, True]),
            Tunable(name="SCALE", values=[0.25, 0.5, 1.0]),
        ],
        [fits("TILE * STAGES <= 256")],
    )


SPACES: dict[str, Callable[[], Space]] = {
    "mixed": mixed,
    "one point": lambda: Space([Tunable(name="A", values=[3]), Tunable(name="B", values=["x"])]),
    "one valid point": lambda: Space([Tunable(name="A", values=[1, 2, 3])], [fits("A == 2")]),
    "categorical": lambda: Space([Tunable(name=name, values=["x", "y", "z"]) for name in "ABCD"]),
    "floats": lambda: Space([Tunable(name=name, values=[0.1, 0.2, 0.5, 1.5]) for name in "ABC"], [fits("A + B <= 2")]),
    "drawn": lambda: Space(
        [Tunable(name=f"T{place}", values=list(range(12))) for place in range(8)], [fits("T0 + T1 <= 16")]
    ),
}

KINDS: dict[str, Outcome] = {
    outcome.kind: outcome
    for outcome in (
        Measured(timing=Timing(samples_us=(1.0,))),
        Pruned(timing=Timing(samples_us=(9.0,)), threshold_us=8.0),
        InvalidConfig(reason="no"),
        CompileFailed(log="no"),
        OverResources(resource="registers", used=300, limit=255),
        WrongAnswer(reason="tolerance"),
        LaunchFailed(reason="no"),
        TimedOut(stage="verify", limit_s=1.0),
        Crashed(stage="verify", reason="SIGSEGV"),
        Impossible(timing=Timing(samples_us=(0.1,)), floor_us=1.0),
        Abandoned(worker_losses=3),
        Cancelled(),
    )
}


def time_us(space: Space, trial: Trial) -> float:
    """Return a time in µs that grows with the distance from a minimum, plus a pseudo-random part."""
    indices = space.encode(trial.config)
    sizes = np.array([len(tunable.values) for tunable in space.tunables])
    ripple = zlib.crc32(space.key(trial.config).encode()) / 2**32
    return float(10 + 20 * (((indices + 0.5) / sizes - 0.7) ** 2).sum() + ripple)


def measured(space: Space, trial: Trial) -> Outcome:
    return Measured(timing=Timing(samples_us=(time_us(space, trial),)))


def troubled(space: Space, trial: Trial) -> Outcome:
    """Return a measured outcome for every second trial. The other trials get each other kind of outcome in turn."""
    fate = zlib.crc32(b"fate" + space.key(trial.config).encode())
    return measured(space, trial) if fate % 2 else list(KINDS.values())[1:][fate // 2 % (len(KINDS) - 1)]


def advance(
    history: History, strategy: Strategy, space: Space, evaluate: Evaluate, trials: int, *, seed: int = 0
) -> list[Trial]:
    """Propose and evaluate up to `trials` trials. Return the trials; stop early if the strategy has no proposal."""
    done = []
    for _ in range(trials):
        proposal = strategy.propose(history, np.random.default_rng((seed, len(history.asked))))
        if proposal is None:
            break
        done.append(tell(history, history.ask(proposal), evaluate(space, history.asked[-1])))
    return done


def ending(kind: str) -> Evaluate:
    """Return a function that gives every trial this outcome."""
    return lambda space, trial: KINDS[kind]


def tell(history: History, trial: Trial, outcome: Outcome) -> Trial:
    ended = Trial(number=trial.number, proposal=trial.proposal, outcome=outcome)
    history.tell(ended)
    return ended


def copied(history: History) -> History:
    """Return a copy of the history, as a restarted service would rebuild it."""
    copy, told = History(), iter(history.finished)
    for trial, seen in zip(history.asked, history.seen, strict=True):
        while len(copy.finished) < seen:
            copy.tell(next(told))
        copy.ask(trial.proposal)
    for trial in told:
        copy.tell(trial)
    return copy
