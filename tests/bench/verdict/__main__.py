"""Measures error rates of verdicts by source of noise: ``python -m tests.bench.verdict`` or ``make bench-verdict``."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from evo.promotion.policy import Policy
from tests.bench.verdict.draws import SYNTHETIC, Recorded, Source
from tests.bench.verdict.noise import Noise
from tests.bench.verdict.rates import Power, Rate, power, predicted, promoted
from tests.bench.verdict.simulate import as_recorded, covered, worked
from workers.measure.checks.overwrite import LEAST_ROUNDS

RECORDED = Path(__file__).parents[2] / "data" / "noise"
SLOWER = -0.01
GAINS = (-0.05, SLOWER, 0.0, 0.01, 0.02, 0.03, 0.05)
FOUND = 0.05
"""The true gain that must often be promoted, as a fraction of the time."""
MOST_ALIKE, MOST_ALIKE_BOUND, MOST_SLOWER, LEAST_FASTER, LEAST_HEARD = 0.001, 0.002, 0.0002, 0.95, 0.80
"""Limits of rates.

Maximums: promotions of a kernel over itself, their upper 95 % bound if enough confirmations were drawn, and promotions
of a kernel that is 1 % slower. Minimums: promotions of a true gain. On a busy machine and with synthetic noise,
verdicts that stay undecided because of noise count as well.
"""
LEAST_DRAWN = 4_000
"""Number of confirmations that bound the rate of false promotions by `MOST_ALIKE_BOUND` if none is promoted."""
LEAST_COVERED, MOST_COVERED = 0.94, 0.97
"""Limits of the rate at which a process is in its prediction interval."""
REWORK = 3.0
"""Factor by which calls of a kernel that skips two thirds of its work are slower if they must do all of it."""
LEAST_SOUND, MOST_SKIPPING = 0.999, 0.001
"""Limits of the rates at which kernels meet the rule `work`, also on busy machines."""
MOST_PREDICTED = 4_000
"""Maximum number of draws for predictions."""
MOST_WORKED = 5_000
"""Maximum number of draws for the rule `work`, because a draw of this rule takes long."""
BUSY = "-busy"
"""Recordings of overloaded machines, on which gains may be missed. The limits of false promotions are the same."""


def main(arguments: list[str]) -> int:
    """Print the error rates for each source of noise. Return status 1 if a rate exceeds its limit."""
    options = _parser().parse_args(arguments)
    paths = [] if options.synthetic else options.noise or sorted(RECORDED.glob("*.json.gz"))
    held = [_recording(path.name, Noise.load(path), options) for path in paths]
    if options.synthetic or not options.noise:
        held += [_synthetic(name, source, options) for name, source in SYNTHETIC.items()]
    return 0 if held and all(held) else 1


def _synthetic(name: str, source: Source, options: argparse.Namespace) -> bool:
    policy = Policy()
    held = [_drawn(name, source, options, found=_found_on_a_busy_machine)]
    for processes in (policy.confirm_processes, policy.most_processes - 1):
        rate = predicted(source, processes, min(options.confirmations, MOST_PREDICTED), policy, options.seed + 3)
        text = f"a process is in the interval predicted by {processes} processes"
        held.append(_line(text, rate, _covers(rate)))
    return all(held)


def _covers(rate: Rate) -> bool:
    low, high = rate.bounds
    return low <= MOST_COVERED and high >= LEAST_COVERED


def _recording(name: str, noise: Noise, options: argparse.Namespace) -> bool:
    policy, busy = Policy(), BUSY in name
    about = f"{noise.about['family']} {noise.about['problem']}, {noise.about['device']}"
    held = _drawn(
        f"{name}: {about}, {len(noise.processes)} processes",
        Recorded(noise=noise),
        options,
        found=_found_on_a_busy_machine if busy else _found_on_a_quiet_machine,
    )
    run_alike, run_faster = as_recorded(noise, policy)
    in_order, shuffled = covered(noise, policy, 200, options.seed)
    met = [
        _line("promotion of a kernel over itself, in recorded order", run_alike, run_alike.hits == 0),
        _line("promotion of the faster kernel, in recorded order", run_faster, busy or run_faster.hits > 0),
        _line(
            "a process is in the interval predicted by the five processes before it, in circular order",
            in_order,
            in_order.bounds[1] >= LEAST_COVERED,
        ),
        _line(
            "the same prediction, over random orders",
            shuffled,
            _covers(shuffled),
        ),
    ]
    return all([held, *met, *_worked(noise, min(options.confirmations, MOST_WORKED), options.seed)])


def _found_on_a_quiet_machine(power: Power) -> bool:
    return power.promoted.share >= LEAST_FASTER


def _found_on_a_busy_machine(power: Power) -> bool:
    """Return True if enough gains are promoted, or left undecided because of noise."""
    return power.promoted.share + power.cannot_tell.share >= LEAST_HEARD


def _drawn(
    name: str,
    source: Source,
    options: argparse.Namespace,
    *,
    found: Callable[[Power], bool] = lambda _: True,
) -> bool:
    """Print the rates of false and true promotions of drawn confirmations.

    The result is True if all rates are within their limits.

    Args:
        found: returns True if the required gain is promoted often enough. By default, all rates are accepted.
    """
    policy, count = Policy(), options.confirmations
    print(f"\n## {name}", flush=True)
    alike, slower = promoted(source, (0.0, SLOWER), count, policy, options.seed)
    bounded = count < LEAST_DRAWN or alike.bounds[1] <= MOST_ALIKE_BOUND
    held = [
        _line("promotion of a kernel over itself", alike, alike.share <= MOST_ALIKE and bounded),
        _line(f"promotion of a kernel that is {-SLOWER:.0%} slower", slower, slower.bounds[0] <= MOST_SLOWER),
    ]
    for gain in GAINS:
        gained = power(source, gain, max(1, count // options.share), policy, options.seed + 2)
        held.append(_power(gain, gained, holds=gain != FOUND or found(gained)))
    return all(held)


def _power(gain: float, found: Power, *, holds: bool) -> bool:
    _line(f"promotion of a true gain of {gain:.0%}", found.promoted, holds)
    print(f"  - undecided because of noise: {found.cannot_tell.share:.1%}; {found.processes:.1f} processes on average")
    if found.promoted.hits:
        off = f"{found.measured:+.2f} percentage points as measured, {found.corrected:+.2f} after correction"
        print(f"  - mean error of promoted gains: {off}", flush=True)
    return holds


def _worked(noise: Noise, tries: int, seed: int) -> list[bool]:
    """Print how often the rule `work` accepts a kernel that does all its work, and a kernel that skips most of it.

    The result has one element per printed line: True if the rate is within its limit.
    """
    held = []
    for what, slow in (("", False), (f" (slow kernel, with as few as {LEAST_ROUNDS} rounds)", True)):
        sound, skipping = worked(noise, 1.0, tries, seed, slow=slow), worked(noise, REWORK, tries, seed, slow=slow)
        least, most = 0.0 if slow else LEAST_SOUND * tries, MOST_SKIPPING * tries
        held += [
            _line(f"a correct kernel meets the rule `work`{what}", sound.met, sound.met.hits >= least),
            _line(f"the rule is undecided for the correct kernel{what}", sound.undecided, True),
            _line(
                f"a kernel that skips two thirds of its work meets the rule{what}",
                skipping.met,
                skipping.met.hits <= most,
            ),
        ]
    return held


def _line(what: str, rate: Rate, holds: bool) -> bool:
    print(f"- {what}: {rate}{'' if holds else '  LIMIT MISSED'}", flush=True)
    return holds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("noise", type=Path, nargs="*", help="recordings of noise (default: all, and synthetic noise)")
    parser.add_argument("--synthetic", action="store_true", help="use only synthetic noise")
    parser.add_argument(
        "--confirmations", type=int, default=20_000, help="number of confirmations that compare a kernel with itself"
    )
    parser.add_argument(
        "--share", type=int, default=100, help="number by which --confirmations is divided for each true gain"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
