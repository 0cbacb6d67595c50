"""Times above which a trial is stopped early: see `evo.trial.timing.Bars`."""

from collections.abc import Sequence

from evo.promotion.policy import Policy
from evo.trial.history import ELITES
from evo.trial.timing import Bars


def bars(policy: Policy, kernels_us: Sequence[float], *, by_time: bool) -> Bars:
    """Return the times above which a candidate is stopped early; no limits until a kernel is known.

    Until there are enough elites, a candidate that is much slower than the fastest kernel gets fewer samples, and only
    one that is far slower is stopped.

    Args:
        kernels_us: times of the fastest kernels, at most `ELITES`, the fastest first.
        by_time: False under a metric or two objectives: a slow kernel may still be the best, or on the front.
    """
    if not (kernels_us and by_time):
        return Bars()
    if len(kernels_us) < ELITES:
        return Bars(
            shorten_us=_limit_us(policy.prune_ratio if policy.shorten_ratio is not None else None, kernels_us[0]),
            hopeless_us=_limit_us(policy.hopeless_ratio, kernels_us[0]),
        )
    return Bars(
        prune_us=_limit_us(policy.prune_ratio, kernels_us[-1]),
        shorten_us=_limit_us(policy.shorten_ratio, kernels_us[-1]),
        hopeless_us=_limit_us(policy.hopeless_ratio, kernels_us[-1]),
    )


def _limit_us(ratio: float | None, time_us: float) -> float | None:
    return None if ratio is None else ratio * time_us
