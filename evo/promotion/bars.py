"""Times above which the measurement of a trial is shortened or stopped; see `evo.trial.timing.Bars`."""

from collections.abc import Sequence

from evo.promotion.policy import Policy
from evo.trial.history import ELITES
from evo.trial.timing import Bars


def bars(policy: Policy, kernels_us: Sequence[float], *, by_time: bool) -> Bars:
    """Return the times above which a candidate's measurement is shortened or stopped.

    Each limit is a ratio of the policy multiplied by the time of a reference kernel. There is no limit for a ratio that
    is None.

    - If `ELITES` kernels are given, the reference is the slowest kernel. A candidate is stopped above `prune_ratio` or
      `hopeless_ratio`, and gets fewer samples above `shorten_ratio`.
    - If fewer kernels are given, the reference is the fastest kernel. A candidate is stopped above `hopeless_ratio`,
      and gets fewer samples above `prune_ratio`, unless `shorten_ratio` is None.
    - If no kernel is given, there are no limits.

    Args:
        kernels_us: times of the fastest kernels in µs, at most `ELITES`, fastest first.
        by_time: False if the search has a metric or two objectives. A slow kernel may then still be the best, or on the
            Pareto front, so no measurement is shortened or stopped.
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
