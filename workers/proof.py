"""What a candidate is proven by, beyond its cases: drawn at random, the same for the quick gate and a confirmation.

Where its buffers lie, on which thread and core it runs, what its memory holds and which inputs come when: a kernel that
is right only in the circumstances in which it is timed is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workers.devices import Manner, Placement

_STACKS = (8, 16)
"""MiB, from and to: of threads that a kernel is called on."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One call whose answer is judged: where the buffers lie and how it is made."""

    placement: Placement
    manner: Manner


@dataclass(frozen=True, kw_only=True)
class ProofPlan:
    """What one kernel process is put through.

    Attributes:
        core: chooses the cores that it runs on, where it is not timed in this process.
        launches: further ones, after those at the place where it is timed.
    """

    core: int
    launches: tuple[Launch, ...]

    @classmethod
    def draw(cls, seed: Sequence[int], process: int) -> "ProofPlan":
        """A plan.

        Args:
            seed: of the inputs that the process is given first.
            process: which process of this runner it is.
        """
        rng = np.random.default_rng([*seed, process])
        places = [
            Placement(where="first"),
            Placement(where="last"),
            Placement(where="adrift", shift=1 + 2 * int(rng.integers(1 << 20))),
        ]
        threads = [bool(each) for each in rng.permutation([True, False, bool(rng.integers(2))])]
        launches = [
            Launch(
                placement=places[place],
                manner=Manner(
                    own_thread=threads[place],
                    perturb=bool(rng.integers(2)),
                    stack_bytes=int(rng.integers(*_STACKS)) << 20,
                ),
            )
            for place in rng.permutation(len(places)).tolist()
        ]
        return cls(core=int(rng.integers(1 << 20)), launches=tuple(launches))

    @property
    def words(self) -> str:
        """E.g. ``last on its own thread, first, adrift``."""
        return ", ".join(each.placement.where + " on its own thread" * each.manner.own_thread for each in self.launches)
