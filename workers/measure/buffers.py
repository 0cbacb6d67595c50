"""Buffer sets for the cases of a problem, with the expected outputs for their inputs."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from evo.device.estimate.roofline import cold_sets
from workers.backends import Buffers, Session
from workers.build.kernel import Argument
from workers.measure.checks.contents import Contents
from workers.measure.family.expected_output import ExpectedOutput
from workers.runner.protocol import Open

Mode = Literal["hot", "cold"]

_COLD = "cold", 0
"""Key of the buffer sets for cold calls."""

_KEPT_SETS = 2
"""Number of argument lists whose buffers are kept. Allocating the buffers for cold timing takes longer than timing."""


@dataclass(kw_only=True)
class BufferSets:
    """Allocates buffer sets on a device, and keeps them for later candidates with the same arguments.

    Attributes:
        golden: expected outputs by case name, one for each set of inputs of the case.
    """

    terms: Open
    session: Session
    golden: Mapping[str, tuple[ExpectedOutput, ...]]
    _kept: dict[tuple[str, int], dict[tuple[Argument, ...], Sequence[Buffers]]] = field(default_factory=dict)
    _held: WeakKeyDictionary[Buffers, int] = field(default_factory=WeakKeyDictionary)
    _contents_of: WeakKeyDictionary[Buffers, Contents] = field(default_factory=WeakKeyDictionary)

    @property
    def _timed_case(self) -> str:
        return self.terms.cases[0].name

    @property
    def nominal(self) -> ExpectedOutput:
        """First inputs of the searched problem, with their expected outputs."""
        return self.golden[self._timed_case][0]

    @cached_property
    def timed(self) -> tuple[ExpectedOutput, ...]:
        """Sets of inputs on which candidates are timed, with their expected outputs.

        These are all sets of the timed case except the last, which is held back. If there is only one set, candidates
        are timed on this set.
        """
        found = self.golden[self._timed_case]
        return found[:-1] or found

    @property
    def held_back(self) -> ExpectedOutput:
        """Inputs that candidates receive only after the timed rounds, with their expected outputs.

        If the timed case has only one set of inputs, candidates are also timed on it.
        """
        return self.golden[self._timed_case][-1]

    def sets(self, mode: Mode, arguments: tuple[Argument, ...]) -> Sequence[Buffers]:
        """Return the buffer sets that timed calls use about equally often.

        Hot calls use one set. Cold calls use so many sets that the caches cannot hold all of them, if memory permits.
        """
        hot = self.of_case(self._timed_case, arguments)
        if mode == "hot":
            return hot
        return self._keep(_COLD, arguments, self.nominal, self._cold_count(hot))

    @contextmanager
    def allocating_cold(self, arguments: tuple[Argument, ...]) -> Iterator[None]:
        """Allocate the buffer sets for cold calls in a second thread during the ``with`` block, and keep them.

        The ``with`` block ends when the sets are allocated, so that no timed calls are disturbed. If the allocation
        fails, `sets` tries again.
        """
        if arguments in self._kept.get(_COLD, {}):
            yield
            return
        count = self._cold_count(self.of_case(self._timed_case, arguments))
        with ThreadPoolExecutor(1) as pool:
            inputs = self.nominal.inputs_of(arguments)
            allocated: Future[Sequence[Buffers]] = pool.submit(self.session.allocate_sets, arguments, inputs, count)
            yield
        if allocated.exception() is None:
            self._keep(_COLD, arguments, self.nominal, count, made=allocated.result())

    def _cold_count(self, hot: Sequence[Buffers]) -> int:
        return cold_sets(self.session.cold_bytes, hot[0].bytes_held, self.terms.memory_limit_bytes)

    def of_case(self, case: str, arguments: tuple[Argument, ...]) -> Sequence[Buffers]:
        """Return the buffer set on which a case is verified, as a sequence of length 1.

        The set of the first case is also used for hot timed calls.
        """
        return self._keep((f"case {case}", -1), arguments, self.golden[case][0], 1)

    def put(self, buffers: Buffers, case: str, content: int, arguments: tuple[Argument, ...]) -> None:
        """Fill the buffers of a case with the inputs that have the number `content`, if the case is the timed case.

        Other cases have only one set of inputs, so their buffers are not changed.
        """
        if case == self._timed_case:
            self.contents(arguments).put(buffers, content)

    def contents(self, arguments: tuple[Argument, ...]) -> Contents:
        """Return the object that changes the inputs in the timed buffers for these arguments."""
        (hot,) = self.of_case(self._timed_case, arguments)
        if hot not in self._contents_of:
            name = self._timed_case
            sources = [
                self._keep((f"content {name}", number), arguments, golden, 1)[0]
                for number, golden in enumerate(self.timed)
            ]
            rng = np.random.default_rng(self.terms.seed)
            self._contents_of[hot] = Contents(sources, rng, self._held)
        return self._contents_of[hot]

    def _keep(
        self,
        key: tuple[str, int],
        arguments: tuple[Argument, ...],
        golden: ExpectedOutput,
        count: int,
        *,
        made: Sequence[Buffers] | None = None,
    ) -> Sequence[Buffers]:
        """Return the kept buffer sets for a key and arguments.

        If there are none, keep and return `made`, or `count` newly allocated sets if `made` is None.
        """
        kept = self._kept.setdefault(key, {})
        buffers = kept.pop(arguments, None)
        if buffers is None:
            while len(kept) >= _KEPT_SETS:
                del kept[next(iter(kept))]
            buffers = made or self.session.allocate_sets(arguments, golden.inputs_of(arguments), count)
        kept[arguments] = buffers
        return buffers
