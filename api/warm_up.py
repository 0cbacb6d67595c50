"""What a service process does before it serves, so that no request has to wait for it later."""

import gc

import numpy as np

from evo.promotion import judge
from evo.promotion.policy import Policy
from evo.results import ConfirmReport
from evo.trial.timing import Timing

YOUNG, MIDDLE = 10_000, 20
"""Objects made since the collector last looked, and such looks before it looks at older ones: one request makes some
thousands, of which none stays."""


def learn_to_judge() -> None:
    """Load what a verdict needs: the first one would hold up every request for a second, in each process anew."""
    timing = Timing(samples_us=(1.0, 1.1, 0.9))
    report = ConfirmReport(challenger=timing, challenger_again=timing, incumbent=timing, baselines={"library": timing})
    judge(report, Policy(), 1, np.random.default_rng(0))


def settle() -> None:
    """Whatever was loaded by now stays: spare the garbage collector looking through it, which takes 0.1 s and more.

    For a process that does nothing but serve.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, MIDDLE)
