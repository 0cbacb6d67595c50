"""The rule that a challenger must not become slower after many calls."""

import math

import numpy as np

from evo.promotion.prediction import compared_times
from evo.promotion.rules.base import Confirmation, rule
from evo.promotion.statistics import Samples, mean_interval, rounds_ratio
from evo.promotion.verdict import Rule
from evo.text.wording import times_text

_PARTS, _LEAST_ROUNDS = 3, 9
"""Number of parts into which the rounds of a process are divided, and minimum number of rounds. The first and the last
part are compared.
"""


@rule("steady", about="kernel", rank=65, threshold=1.1)
def steady_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Refuse a kernel that is fast only in its first calls.

    In each process, the ratio of the challenger's time to the time of the incumbent (without an incumbent, of a
    baseline) is computed for the first and for the last third of the rounds. The kernel is refused if this ratio
    certainly increases, on average over processes, by more than the threshold or, with an incumbent, by more than the
    minimum gain. The rule needs at least two processes of at least nine rounds each.
    """
    policy, report = confirmation.policy, confirmation.report
    limit = policy.threshold("steady")
    if report.incumbent is not None:
        limit = min(limit, 1.0 / (1.0 - policy.minimum_gain))
    pairs = [(own.samples_us, other.samples_us) for own, other in compared_times(report)]
    found = [_increase(own, other) for own, other in pairs if min(len(own), len(other)) >= _LEAST_ROUNDS]
    if len(found) < 2:
        return ()
    mean = mean_interval(
        found, 2.0 * policy.skip_confidence - 1.0
    )  # its lower end has the confidence `skip_confidence`
    figure, passed = math.exp(mean.estimate), mean.low <= math.log(limit)
    than = "the incumbent" if report.repeated_against == "incumbent" else report.repeated_against
    text = (
        f"In the last third of a process's rounds, the challenger's calls take {times_text(figure, 'long')} as in the "
        f"first third, relative to those of {than}; at most {limit:.3g} is allowed."
    )
    if not passed:
        text = f"The challenger becomes slower after many calls. {text}"
    elif figure > limit:
        least = f"at least {math.exp(mean.low):.3g} with {policy.skip_confidence:.1%} confidence"
        text += f" The excess may be noise, because the factor is only {least}."
    return (Rule(name="steady", passed=passed, figure=figure, threshold=limit, text=text),)


def _increase(own: Samples, other: Samples) -> float:
    """Return by how much the logarithm of the time ratio is larger in the last third of the rounds than in the first.

    Args:
        own, other: samples in µs. Sample i of both was taken in round i.
    """
    rounds = min(len(own), len(other))
    logs = np.log(rounds_ratio(own[:rounds], other[:rounds]))
    part = len(logs) // _PARTS
    return float(np.median(logs[-part:]) - np.median(logs[:part]))
