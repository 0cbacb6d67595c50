"""Measures how the cost of a proposal grows with the history, on three kinds of spaces, and for Optuna's TPE."""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from evo.space import Constraint, Space, Tunable
from evo.space.expression import Expression
from evo.strategy import Context, build
from evo.trial import Proposal, Trial
from evo.trial.history import History
from evo.trial.outcome import CompileFailed, Measured, Outcome
from evo.trial.timing import Timing

LENGTHS = (100, 300, 1_000, 3_000, 10_000)
ASKS = 200
"""Number of timed proposals for each length of the history. The result of a proposal is reported before the next."""

STOCK_ASKS = 20
FAILING = 0.1


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Processor time of a proposal after a number of ended trials, including the time to record the last result."""

    trials: int
    median_ms: float
    p99_ms: float


def listed() -> Space:
    """Return a space of 839,808 valid configs that are enumerated."""
    sizes = (4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3)
    constraint = Constraint(
        expression=Expression.parse("T0 + T1 + T2 <= 4", "constraints"), because="the sum is limited"
    )
    return Space([Tunable(name=f"T{index}", values=range(size)) for index, size in enumerate(sizes)], [constraint])


def drawn() -> Space:
    """Return a space that is too large to enumerate, with 10^12 points of which a third are valid."""
    constraint = Constraint(
        expression=Expression.parse("T0 + T1 + T2 <= 11", "constraints"), because="the sum is limited"
    )
    return Space([Tunable(name=f"T{index}", values=range(10)) for index in range(12)], [constraint])


def named() -> Space:
    """Return an enumerated space of 10^6 configs: three tunables with a hundred unordered values each."""
    return Space([Tunable(name=f"T{index}", values=[f"v{value}" for value in range(100)]) for index in range(3)])


SPACES: dict[str, Callable[[], Space]] = {"listed": listed, "drawn": drawn, "named": named}


def ours(name: str, space: Space, lengths: Sequence[int] = LENGTHS) -> list[Cost]:
    """Return the costs of a built-in strategy on histories of random configs, some of which failed."""
    rng = np.random.default_rng(0)
    configs = space.sample(rng, lengths[-1] + ASKS * len(lengths))
    strategy, history = build(name, Context(space=space)), History()
    costs = []
    for length in lengths:
        while len(history.finished) < length:
            key_config = configs[len(history.asked)]
            _end(history, history.ask(Proposal(config=key_config, origin="random")), space)
        strategy.propose(history, np.random.default_rng(0))  # the first proposal also reads the history
        costs.append(_timed(length, ASKS, partial(_asked, strategy, history, space)))
    return costs


def stock(lengths: Sequence[int] = LENGTHS) -> list[Cost]:
    """Return the costs of Optuna's TPE on a space of twelve integers, after each number of trials in `lengths`."""
    import optuna
    from optuna.distributions import BaseDistribution, IntDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, BaseDistribution] = {f"T{index}": IntDistribution(0, 9) for index in range(12)}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    rng = np.random.default_rng(0)
    costs = []
    for length in lengths:
        missing = length - len(study.get_trials(deepcopy=False))
        rows = rng.integers(10, size=(max(0, missing), 12)).tolist()
        study.add_trials(
            optuna.create_trial(
                params=dict(zip(distributions, row, strict=True)), distributions=distributions, value=_time_us(row)
            )
            for row in rows
        )

        def ask() -> None:
            trial = study.ask(distributions)
            study.tell(trial, _time_us(list(trial.params.values())))

        ask()
        costs.append(_timed(length, STOCK_ASKS, ask))
    return costs


def growth(costs: Sequence[Cost]) -> float:
    """Return the exponent with which the median cost grows beyond 1,000 trials. 1 means linear growth."""
    late = [cost for cost in costs if cost.trials >= 1_000]
    x, y = (np.log([getattr(cost, name) for cost in late]) for name in ("trials", "median_ms"))
    return float(np.polyfit(x, y, 1)[0]) if len(late) > 1 else math.nan


def _timed(trials: int, asks: int, ask: Callable[[], None]) -> Cost:
    spent_ms = []
    gc.collect()
    for _ in range(asks):
        begun = time.process_time()
        ask()
        spent_ms.append(1e3 * (time.process_time() - begun))
    return Cost(trials=trials, median_ms=float(np.median(spent_ms)), p99_ms=float(np.quantile(spent_ms, 0.99)))


def _asked(strategy: object, history: History, space: Space) -> None:
    proposal = strategy.propose(history, np.random.default_rng((1, len(history.asked))))  # type: ignore[attr-defined]
    assert proposal is not None
    _end(history, history.ask(proposal), space)


def _end(history: History, trial: Trial, space: Space) -> None:
    indices = space.encode(trial.config).tolist()
    failed = hash(tuple(indices)) % 1000 < 1000 * FAILING
    outcome: Outcome = CompileFailed(log="") if failed else Measured(timing=Timing(samples_us=(_time_us(indices),)))
    history.tell(Trial(number=trial.number, proposal=trial.proposal, outcome=outcome))


def _time_us(indices: Sequence[int]) -> float:
    """Return a synthetic time in µs: quadratic, with an off-centre minimum and two interacting tunables."""
    return 10.0 + sum((index - 2) ** 2 for index in indices) + 3 * abs(indices[0] - indices[1])
