"""Prepares a service process before it serves, so that no request waits for it later."""

import gc

import numpy as np

from evo.promotion import judge
from evo.promotion.policy import Policy
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing

YOUNG, MIDDLE = 10_000, 20
"""Thresholds of the garbage collector. A request creates some thousands of objects, none of which lives on; the
defaults would scan older objects far too often."""


def learn_to_judge() -> None:
    """Load the modules that a verdict needs. Otherwise the first verdict would delay all requests of a process by a
    second.
    """
    timing = Timing(samples_us=(1.0, 1.1, 0.9))
    report = ConfirmReport(challenger=timing, challenger_again=timing, incumbent=timing, baselines={"library": timing})
    judge(report, Policy(), 1, np.random.default_rng(0))


def settle() -> None:
    """Exclude all objects that exist now from garbage collection; each scan of them would take 0.1 s or more.

    Only for a process that does nothing but serve.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, MIDDLE)
