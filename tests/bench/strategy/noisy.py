"""Measures the value of confirmations when times are noisy and some times are far too low.

Noise is added to recorded times. The best config is confirmed every `Policy.challenge_every` trials, and three configs
are confirmed at the end. A confirmation finds the recorded time. With corrections, the strategy gets the confirmed
time; without corrections, it keeps the noisy time. Scores use the recorded times of the measured configs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evo.strategy import STRATEGIES
from evo.trial import Trial
from evo.trial.outcome import Measured
from evo.trial.timing import Timing
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.ours import OurPlayer
from tests.bench.strategy.run import Course
from tests.bench.strategy.scores import by_evaluations
from tests.bench.strategy.simulate import Simulation
from tests.bench.strategy.variants import VARIANTS, Factory

SHARE = 0.4
"""Fraction of the seeds that are run."""

TRIALS = 200
PIECE = "with the whole lead"


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Noise of measured times.

    Attributes:
        spread: standard deviation of the logarithm of a time.
        lucky: probability that a time is too low.
        factor: factor of times that are too low.
    """

    spread: float
    lucky: float = 0.0
    factor: float = 1.0

    def factors(self, seed: int) -> Iterable[float]:
        """Yield the factors of successive measured times."""
        rng = np.random.default_rng((seed, 1))
        while True:
            factor = float(np.exp(rng.normal(0, self.spread)))
            yield factor * self.factor if rng.random() < self.lucky else factor


NOISES = {
    "5 % of noise": Noise(spread=0.05),
    "2 % of noise, every 50th time multiplied by 0.7": Noise(spread=0.02, lucky=0.02, factor=0.7),
}


class NoisyPlayer(OurPlayer):
    """A player that gets noisy times and, if `corrects` is True, confirmed times."""

    def __init__(self, ground: Ground, factory: Factory, seed: int, noise: Noise, *, corrects: bool) -> None:
        super().__init__(ground, factory, seed)
        self._factors, self._corrects = iter(noise.factors(seed)), corrects
        self._confirmed_us: list[float] = []

    def tell(self, place: int) -> None:
        trial, outcome = self._pending.pop(place), self._ground.entries[place].outcome
        factor = next(self._factors)
        if isinstance(outcome, Measured):
            outcome = replace(outcome, timing=Timing(samples_us=(outcome.timing.median_us * factor,)))
        self._search.tell(Trial(number=trial.number, proposal=trial.proposal, outcome=outcome))
        self._challenge(ended=False)

    def champion_us(self) -> float:
        """Return the fastest confirmed time in µs after the end of the search; infinite if nothing was measured."""
        while self._challenge(ended=True):
            pass
        return min(self._confirmed_us, default=float("inf"))

    def _challenge(self, *, ended: bool) -> bool:
        challengers = self._search.challengers
        if (due := challengers.due(None, ended=ended)) is None:
            return False
        challengers.begin(due)
        found_us = float(self._ground.times_us[self._ground.places[self._ground.space.key(due.config)]])
        self._confirmed_us.append(found_us)
        if self._corrects:
            challengers.confirmed(due.number, found_us)
        return True


@dataclass(frozen=True, kw_only=True)
class NoisyResults:
    """Results of searches with noisy times of one space.

    Attributes:
        p100, p200: scores after 100 and 200 evaluations.
        champion: mean over the champions of the recorded time divided by the optimum.
    """

    p100: float
    p200: float
    champion: float


def compare(grounds: Sequence[Ground], strategy: str, seeds: int) -> dict[str, list[NoisyResults]]:
    """Return a list of results, one per space, for each kind of noise with and without corrections."""
    factories = {"": STRATEGIES[strategy], f", {PIECE}": VARIANTS[PIECE]}
    return {
        f"{name}, {'corrected' if corrects else 'not corrected'}{piece}": [
            _results(ground, [NoisyPlayer(ground, factory, seed, noise, corrects=corrects) for seed in range(seeds)])
            for ground in grounds
        ]
        for name, noise in NOISES.items()
        for piece, factory in factories.items()
        if noise.lucky or not piece
        for corrects in (True, False)
    }


def _results(ground: Ground, players: Sequence[NoisyPlayer]) -> NoisyResults:
    course = Course(clock="steps", trials=min(TRIALS, len(ground.entries)))
    best = np.array([Simulation(ground, each, course).play().best_us(ground, TRIALS) for each in players])
    p100, p200 = by_evaluations(ground, best, (TRIALS // 2, TRIALS))
    champion = float(np.mean([each.champion_us() for each in players])) / ground.optimum_us
    return NoisyResults(p100=float(p100), p200=float(p200), champion=champion)
