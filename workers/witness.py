"""Whether every timed call does all its work: calls on outputs that hold the answer, beside calls on poisoned ones.

In a timed loop every call but the first finds its own answer in its outputs. A kernel that looks for it there and then
does less is right each time it is judged, and fast only while it is timed. So each call is timed together with a copy
into its outputs and workspaces, from a set of the same size that holds the answer or poison: calls, traffic and caches
are the same, and what was copied is the only difference.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from evo.job import Witness
from workers.devices import Buffers, Session
from workers.timing import Moment, interleave

LEAST_ROUNDS, MOST_ROUNDS = 6, 20
"""Of each comparison; of 6 rounds the 95 % interval of a median is their range."""


def witnesses(
    session: Session,
    kernel: Any,
    *,
    sets: Sequence[Buffers],
    sources: Sequence[Buffers],
    moment: Moment,
    budget_s: float,
) -> Iterator[Witness]:
    """Two comparisons, between which the sources exchange what they hold.

    Where one of them lies less well in the caches than the other, copying from it takes longer, whatever it holds.

    Args:
        sets: those the kernel is timed on, taken in turn.
        sources: two more of the same arguments and inputs; in the end the first holds poison, the second the answer.
        budget_s: of both comparisons, unless `LEAST_ROUNDS` take longer.
    """
    timers = [session.rewriting_timer(kernel, sets, source) for source in sources]
    cost_s = 2 * sum(timer.sample() * timer.calls for timer in timers) * 1e-6
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, int(budget_s / max(cost_s, 1e-9))))
    for answered, poisoned in ((0, 1), (1, 0)):
        sources[poisoned].poison()
        session.call(kernel, sources[answered])
        pair = {"answered": timers[answered], "poisoned": timers[poisoned]}
        taken = interleave(pair, rounds, warm=False)
        found = {name: moment.timing(samples_us, pair[name].calls) for name, samples_us in taken.items()}
        yield Witness(answered=found["answered"], poisoned=found["poisoned"])
