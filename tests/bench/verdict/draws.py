"""Random confirmations, drawn from recorded processes or from synthetic noise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evo.promotion import looks
from evo.promotion.policy import Policy
from evo.promotion.rules.sequential import STEP, enough
from evo.promotion.statistics import Samples, paired_ratio
from evo.trial.results import ConfirmReport, OverwriteCheck, Repeat
from evo.trial.timing import Timing
from tests.bench.verdict.noise import Noise
from workers.measure.checks.overwrite import USUAL_ROUNDS

BLOCK = 10
"""Rounds per drawn block. Blocks keep noise that lasts longer than a round (drift, other programs)."""

ALIKE = ("a1", "a2", "a3")
"""Series of one kernel. Their roles (challenger, second series of the challenger, incumbent) are drawn."""

Series = NDArray[np.float64]
"""Samples in µs of one series; shape (processes, rounds)."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Samples of one confirmation with the maximum number of processes. Sample i of each series is from round i."""

    challenger: Series
    again: Series
    incumbent: Series

    def faster(self, gain: float) -> "Draw":
        """Return the draw with the challenger's time reduced by the fraction `gain`."""
        return replace(self, challenger=(1 - gain) * self.challenger, again=(1 - gain) * self.again)

    def speedups(self, policy: Policy) -> Iterator[list[float]]:
        """Yield the speed-up of the first process, then those of the first two, and so on.

        They are computed as in `evo.promotion.prediction`.
        """
        ratios = self.incumbent / self.challenger
        rounds = ratios.shape[1]
        for process in range(len(ratios)):
            rounds = min(rounds, self.rounds(process, policy))
            yield np.median(ratios[: process + 1, :rounds], axis=1).tolist()

    def speedup(self, process: int, rounds: int) -> float:
        """Return the speed-up of one process over its first rounds."""
        return paired_ratio(self.incumbent[process][:rounds], self.challenger[process][:rounds])

    def rounds(self, process: int, policy: Policy) -> int:
        """Return the number of rounds that a worker would take in a process."""
        pairs = [(self.challenger[process], self.incumbent[process])]
        if process == 0:
            pairs.append((self.challenger[0], self.again[0]))
        most = policy.confirm_samples if process == 0 else min(policy.process_samples, policy.confirm_samples)
        return rounds_taken(pairs, most, policy, first=process == 0)

    def report(self, processes: int, policy: Policy) -> ConfirmReport:
        """Return the report of a worker that stops after `processes` processes."""
        first, *later = (self.rounds(each, policy) for each in range(processes))
        return ConfirmReport(
            challenger=_timing(self.challenger[0][:first]),
            challenger_again=_timing(self.again[0][:first]),
            incumbent=_timing(self.incumbent[0][:first]),
            repeats=tuple(
                Repeat(challenger=_timing(self.challenger[each][:rounds]), other=_timing(self.incumbent[each][:rounds]))
                for each, rounds in enumerate(later, start=1)
            ),
            repeated_against="incumbent" if processes > 1 else None,
            overwrite_check=OverwriteCheck(
                answered=_timing(self.challenger[0][-USUAL_ROUNDS:]), poisoned=_timing(self.again[0][-USUAL_ROUNDS:])
            ),
        )


class Source(Protocol):
    """Source from which confirmations are drawn."""

    def draw(self, gain: float, policy: Policy, rng: np.random.Generator) -> Draw:
        """Draw a confirmation whose challenger saves the fraction `gain` of the incumbent's time.

        With a gain of 0, challenger and incumbent are the same kernel.
        """


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Draws recorded processes in random order, and their rounds in circular blocks (Politis and Romano, 1992)."""

    noise: Noise

    def draw(self, gain: float, policy: Policy, rng: np.random.Generator) -> Draw:
        wanted, available = looks(policy)[-1], len(self.noise.processes)
        processes = rng.choice(available, wanted, replace=available < wanted).tolist()
        challenger, again, incumbent = rng.permutation(ALIKE).tolist()
        chosen = [blocks(self.noise.of(each, challenger).size, policy.confirm_samples, rng) for each in processes]

        def series(name: str) -> Series:
            pairs = zip(processes, chosen, strict=True)
            return np.stack([self.noise.of(process, name)[rounds] for process, rounds in pairs])

        return Draw(
            challenger=(1 - gain) * series(challenger), again=(1 - gain) * series(again), incumbent=series(incumbent)
        )


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Draws a mean time of each kernel for each process, and rounds that vary around it.

    Attributes:
        effects: function that draws the factor of a kernel's time in each process.
        jitter: standard deviation of the logarithm of a round's time.
        uneven: standard deviation of the logarithm of `jitter` over processes. With 0, all processes have equal noise.
    """

    effects: Callable[[tuple[int, ...], np.random.Generator], NDArray[np.float64]]
    jitter: float = 0.01
    uneven: float = 0.0

    def draw(self, gain: float, policy: Policy, rng: np.random.Generator) -> Draw:
        processes, rounds = looks(policy)[-1], policy.confirm_samples
        owed = self.effects((2, processes, 1), rng)
        jitter = self.jitter * np.exp(rng.normal(0.0, self.uneven, (processes, 1))) if self.uneven else self.jitter
        drift = np.exp(rng.normal(0.0, jitter, (processes, rounds)))
        own = np.exp(rng.normal(0.0, jitter, (3, processes, rounds)))
        challenger, again = (100.0 * (1 - gain) * owed[0] * drift * own[index] for index in (0, 1))
        return Draw(challenger=challenger, again=again, incumbent=100.0 * owed[1] * drift * own[2])


def normal(spread: float) -> Synthetic:
    """Return noise in which the speed-ups of processes have the standard deviation `spread`."""
    return Synthetic(effects=lambda shape, rng: np.exp(rng.normal(0.0, spread / np.sqrt(2.0), shape)))


def one_in_five(slower: float) -> Synthetic:
    """Return noise in which each kernel is slower by the fraction `slower` in one process of five."""
    return Synthetic(effects=lambda shape, rng: np.where(rng.random(shape) < 0.2, 1.0 + slower, 1.0))


SYNTHETIC = {
    "no process effect": normal(0.0),
    "processes differ by 1 % (normal)": normal(0.01),
    "processes differ by 3 % (normal)": normal(0.03),
    "processes differ by 5 % (normal)": normal(0.05),
    "6 % slower in one process of five": one_in_five(0.06),
    "rounds vary more in some processes": Synthetic(effects=lambda shape, rng: np.ones(shape), uneven=1.0),
}
"""Synthetic kinds of noise, by name."""


def _timing(samples_us: NDArray[np.float64]) -> Timing:
    return Timing(samples_us=tuple(samples_us.tolist()))


def blocks(recorded: int, wanted: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return indices of recorded rounds, drawn in blocks; shape (wanted,)."""
    starts = rng.integers(0, recorded, -(-wanted // BLOCK))
    return ((starts[:, None] + np.arange(BLOCK)) % recorded).ravel()[:wanted]


def rounds_taken(
    pairs: Sequence[tuple[Samples, Samples]],
    most: int,
    policy: Policy,
    *,
    first: bool = False,
) -> int:
    """Return the number of rounds, at most `most`, after which a process ends.

    Args:
        pairs: pairs of compared series, each with at least `most` samples. The first pair consists of challenger and
            incumbent.
        first: True for the first process, which also ends if the challenger is certainly too slow.
    """

    def ends(count: int) -> bool:
        return enough([(own[:count], other[:count]) for own, other in pairs], policy, first=first)

    return next((count for count in range(policy.fewest_rounds, most, STEP) if ends(count)), most)
