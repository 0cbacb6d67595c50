"""Times above which a trial is stopped early: see `evo.trial.timing.Bars`."""

from evo.promotion.policy import Policy
from evo.trial.timing import Bars


def bars_of_elites(policy: Policy, slowest_us: float) -> Bars:
    """Return the bars once there are enough elites.

    Args:
        slowest_us: time of the slowest elite.
    """
    return Bars(
        prune_us=_limit_us(policy.prune_ratio, slowest_us),
        shorten_us=_limit_us(policy.shorten_ratio, slowest_us),
        hopeless_us=_limit_us(policy.hopeless_ratio, slowest_us),
    )


def early_bars(policy: Policy, fastest_us: float) -> Bars:
    """Return the bars until there are enough elites: a candidate that is much slower than the fastest kernel gets fewer
    samples, and only one that is far slower is stopped.

    Args:
        fastest_us: time of the fastest kernel.
    """
    return Bars(
        shorten_us=_limit_us(policy.prune_ratio if policy.shorten_ratio is not None else None, fastest_us),
        hopeless_us=_limit_us(policy.hopeless_ratio, fastest_us),
    )


def _limit_us(ratio: float | None, time_us: float) -> float | None:
    return None if ratio is None else ratio * time_us
