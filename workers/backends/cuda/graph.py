"""Timing with CUDA graphs: one graph contains all calls of a sample, and events around the calls give the time."""

import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

from workers.backends.cuda.launch import cuda_errors, record

SAMPLE_US = 1000.0
FIRST_CALLS = 20
SHORT_US, SHORT_CALLS = 5.0, 200
"""A sample of a `GraphTimer` lasts about `SAMPLE_US` µs or longer, unless `once` is True. It has at least `SHORT_CALLS`
calls if a call takes less than `SHORT_US` µs.
"""


class GraphTimer:
    """Times functions without arguments that enqueue work on a stream. All calls of a sample form one CUDA graph.

    The results of different functions stay allocated. Otherwise a library would write every result to the same memory,
    which would stay in the L2 cache.

    Args:
        cuda: CuPy's ``cuda``.
        calls: functions, which are called in rotation.
        keep: object that is kept alive as long as the timer.
        once: True to call each function exactly once in each sample, even if the sample is then very short.
    """

    def __init__(
        self,
        cuda: Any,
        stream: Any,
        calls: Sequence[Callable[[], object]],
        keep: object = None,
        *,
        once: bool = False,
    ) -> None:
        self._cuda, self._stream, self._keep = cuda, stream, keep
        self._events = cuda.Event(), cuda.Event()
        self._rotation, self.last = cycle(calls), len(calls) - 1
        self.calls = self._sets = len(calls)
        self._capture()
        if once:
            return
        estimate = min(self.sample(), self.sample())
        if estimate * self.calls < SAMPLE_US:  # because launching the graph may take longer than a few calls
            self.calls = self._rounded(FIRST_CALLS, len(calls))
            self._capture()
            estimate = min(self.sample(), self.sample())
        least = SHORT_CALLS if estimate < SHORT_US else 1
        wanted = self._rounded(max(math.ceil(SAMPLE_US / max(estimate, 1e-3)), least), len(calls))
        if wanted != self.calls:
            self.calls = wanted
            self._capture()
        self.sample()

    def sample(self) -> float:
        begin, end = self._events
        with cuda_errors():
            self._stream.synchronize()  # in every sample, the launch of the graph then takes the same time
            begin.record(self._stream)
            self._replay()
            end.record(self._stream)
            end.synchronize()
            return float(self._cuda.get_elapsed_time(begin, end)) * 1e3 / self.calls

    @staticmethod
    def _rounded(calls: int, sets: int) -> int:
        """Return the number of calls, rounded up to a multiple of `sets`."""
        return math.ceil(calls / sets) * sets

    def _capture(self) -> None:
        """Capture the calls of one sample in a graph.

        If PyTorch is used, PyTorch captures the calls, because it must reserve the memory that they allocate.
        """
        due = list(islice(self._rotation, self.calls))
        with cuda_errors():
            if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
                self._replay = _torch_graph(self._stream, due, self._sets)
                return
            with self._stream:
                self._stream.begin_capture()
                try:
                    _call(due, self._sets)
                finally:
                    graph = self._stream.end_capture()
        self._replay = lambda: graph.launch(self._stream)


class RestoredTimer:
    """Times calls of a kernel whose arguments must be restored before each call.

    A sample is one CUDA graph. The graph first restores the arguments of all calls, and then makes the calls between
    two events.

    Args:
        cuda: CuPy's ``cuda``.
        calls: functions that enqueue one call each, on separate buffers. A sample calls each function once.
        restores: functions that each enqueue one operation to restore an argument.
        last: index of the buffer set that the last call of each sample uses, among the sets that the caller of
            `Session.timer` gave.
        keep: object that is kept alive as long as the timer.
    """

    def __init__(
        self,
        cuda: Any,
        stream: Any,
        calls: Sequence[Callable[[], object]],
        restores: Sequence[Callable[[int], None]],
        *,
        last: int,
        keep: object = None,
    ) -> None:
        self._cuda, self._stream, self._keep = cuda, stream, keep
        self._events = cuda.Event(), cuda.Event()
        self.calls, self.last = len(calls), last
        begin, end = self._events
        with cuda_errors(), stream:
            stream.begin_capture()
            try:
                for restore in restores:
                    restore(stream.ptr)
                record(begin.ptr, stream.ptr)
                for call in calls:
                    call()
                record(end.ptr, stream.ptr)
            finally:
                self._graph = stream.end_capture()
        self.sample()

    def sample(self) -> float:
        with cuda_errors():
            self._graph.launch(self._stream)
            self._stream.synchronize()
            return float(self._cuda.get_elapsed_time(*self._events)) * 1e3 / self.calls


def _call(calls: Sequence[Callable[[], object]], sets: int) -> None:
    """Make all calls, with separate memory for the results of `sets` consecutive calls.

    During each call, the results of the `sets - 1` calls before it stay allocated.
    """
    recent: deque[object] = deque(maxlen=sets - 1)
    for call in calls:
        recent.append(call())


def _torch_graph(stream: Any, calls: Sequence[Callable[[], object]], sets: int) -> Callable[[], None]:
    import torch

    outside = torch.cuda.ExternalStream(stream.ptr)  # type: ignore[no-untyped-call,unused-ignore]
    graph = torch.cuda.CUDAGraph()
    # relaxed, as CuPy captures, because calls of CuPy may allocate device memory
    with stream, torch.cuda.graph(graph, stream=outside, capture_error_mode="relaxed"):
        _call(calls, sets)

    def replay() -> None:
        with torch.cuda.stream(outside):
            graph.replay()

    return replay
