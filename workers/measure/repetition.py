"""Whether a call on inputs that were met before takes as long as one on inputs that are new.

In a timed loop the same inputs are met again and again. A kernel that recognises them, by reading all of them or a few,
and copies an answer that it kept, is right whenever it is judged, and fast only while it is timed. So calls go once
around sets of buffers: in one sample each set holds inputs that were drawn just now, in the other all of them hold the
inputs that were timed. Both are written just before, and what was called before is the same.
"""

import time
from collections.abc import Callable, Sequence

from evo.results import Repetition
from workers.backends import Buffers, Timer
from workers.measure.expected_output import Arrays
from workers.measure.timing import Moment, undisturbed

MOST_SETS = 16
LEAST_ROUNDS, MOST_ROUNDS = 6, 24


def repetition(
    turn: Timer,
    sets: Sequence[Buffers],
    *,
    known: Arrays,
    draw: Callable[[], Arrays],
    moment: Moment,
    budget_s: float,
) -> Repetition:
    """Time calls on known and on new inputs in turns.

    Args:
        turn: calls the kernel once on each of `sets`.
        known: inputs that the kernel was timed on.
        draw: returns other inputs of the same distribution, new ones each time.
        budget_s: after it no further round begins, except for the first `LEAST_ROUNDS`.
    """
    blank, began_s = sets[0].sibling(), time.monotonic()
    taken: dict[str, list[float]] = {"new": [], "known": []}

    def fill(contents: Sequence[Arrays]) -> None:
        for each, inputs in zip(sets, contents, strict=True):
            each.renew(inputs)
            each.rewrite(blank)

    before, repeated = ([_copy(known) for _ in sets] for _ in range(2))  # new inputs are arrays of their own, too
    with undisturbed():
        for place in range(MOST_ROUNDS):
            if place >= LEAST_ROUNDS and time.monotonic() - began_s > budget_s:
                break
            contents = {"new": [draw() for _ in sets], "known": repeated}
            for name in ("new", "known") if place % 2 else ("known", "new"):
                fill(before)
                turn.sample()
                fill(contents[name])
                taken[name].append(turn.sample())
    return Repetition(
        new=moment.timing(taken["new"], turn.calls),
        known=moment.timing(taken["known"], turn.calls),
        elements=sum(array.size for array in known.values()),
    )


def _copy(inputs: Arrays) -> Arrays:
    return {name: array.copy() for name, array in inputs.items()}
