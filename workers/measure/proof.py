"""Draws random conditions under which a candidate is verified, for each kernel process.

A kernel that is correct only under the conditions of timed calls is wrong. Verification therefore varies the placement
of buffers, the thread, the cores and the content of allocated memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workers.backends import CallMode, Placement

_STACKS = (8, 16)
"""Range of the stack size in MiB if a kernel is called on its own thread. The upper bound is exclusive."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Placement of the buffers and call mode of one verified call."""

    placement: Placement
    mode: CallMode


@dataclass(frozen=True, kw_only=True)
class ProofPlan:
    """Conditions that a candidate meets only in verification. A kernel that depends on the conditions of timing fails.

    Attributes:
        core: random number that selects other cores, for a kernel process in which no calls are timed.
        launches: calls with other placements of the buffers and other call modes.
    """

    core: int
    launches: tuple[Launch, ...]

    @classmethod
    def draw(cls, seed: Sequence[int], process: int) -> "ProofPlan":
        """Return a random plan.

        Args:
            seed: seed of the first inputs of the case, and number of the runner process.
            process: number of the kernel process within its runner.
        """
        rng = np.random.default_rng([*seed, process])
        placements = [
            Placement(where="first"),
            Placement(where="last"),
            Placement(where="unaligned", shift=1 + 2 * int(rng.integers(1 << 20))),
        ]
        threads = [bool(each) for each in rng.permutation([True, False, bool(rng.integers(2))])]
        launches = [
            Launch(
                placement=placements[index],
                mode=CallMode(
                    own_thread=threads[index],
                    perturb=bool(rng.integers(2)),
                    stack_bytes=int(rng.integers(*_STACKS)) << 20,
                ),
            )
            for index in rng.permutation(len(placements)).tolist()
        ]
        return cls(core=int(rng.integers(1 << 20)), launches=tuple(launches))

    @property
    def words(self) -> str:
        """Return the placements of the calls as text, in call order, e.g. ``last on its own thread, first, unaligned``.

        The buffers begin directly after inaccessible memory (*first*), or end directly before it (*last*).
        """
        return ", ".join(each.placement.where + " on its own thread" * each.mode.own_thread for each in self.launches)
