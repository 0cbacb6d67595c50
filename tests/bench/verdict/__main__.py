"""The error rates of verdicts, by device: ``python -m tests.bench.verdict``, or ``make bench-verdict``."""

import argparse
import sys
from pathlib import Path

from evo.policy import Policy
from tests.bench.verdict.noise import Noise
from tests.bench.verdict.simulate import Rate, as_recorded, covered, promoted, worked
from workers.witness import LEAST_ROUNDS

RECORDED = Path(__file__).parents[2] / "data" / "noise"
GAIN = 0.05
MOST_ALIKE, LEAST_FASTER, LEAST_COVERED = 0.001, 0.95, 0.90
"""What must hold: promotions of a kernel over itself, of a true gain, and predictions met."""
REWORK = 3.0
"""How many times as long the calls of a kernel that skips two thirds of its work take where it cannot."""
LEAST_SOUND, MOST_SKIPPING = 0.999, 0.001
"""What must hold of the rule `work`, on busy machines as well."""
BUSY = "-busy"
"""Recordings of machines with too much to do: nothing may be promoted wrongly there, either; gains may be missed."""


def main(arguments: list[str]) -> int:
    """Print the rates of each recording; status 1 when one is not as it must be."""
    options = _parser().parse_args(arguments)
    held = [_told(path, options.confirmations, options.seed) for path in options.noise]
    return 0 if held and all(held) else 1


def _told(path: Path, confirmations: int, seed: int) -> bool:
    noise, policy = Noise.load(path), Policy()
    about, busy = noise.about, BUSY in path.name
    print(f"\n## {path.name}: {about['family']} {about['problem']}, {about['device']}")
    print(f"{len(noise.processes)} fresh processes recorded{', too busy to find every gain' if busy else ''}")
    alike = promoted(noise, 0.0, confirmations, policy, seed)
    faster = promoted(noise, GAIN, max(1, confirmations // 5), policy, seed + 1)
    run_alike, run_faster = as_recorded(noise, policy)
    in_order, shuffled = covered(noise, policy, 200, seed)
    held = [
        _line("a kernel against itself is promoted", alike, alike.hits <= MOST_ALIKE * alike.tried),
        _line(f"a true gain of {GAIN:.0%} is promoted", faster, busy or faster.hits >= LEAST_FASTER * faster.tried),
        _line("the same in the runs as recorded", run_alike, run_alike.hits == 0),
        _line("the faster kernel is promoted in the runs as recorded", run_faster, busy or run_faster.hits > 0),
        _line(
            "a process lies in the interval of the five before it, the first ones in that of the last",
            in_order,
            busy or in_order.bounds[1] >= LEAST_COVERED,
        ),
        _line("the same over random orders", shuffled, busy or shuffled.hits >= LEAST_COVERED * shuffled.tried),
    ]
    return all([*held, *_worked(noise, confirmations, seed)])


def _worked(noise: Noise, tries: int, seed: int) -> list[bool]:
    """The rule `work` on a kernel that does all its work, and on one that skips most of it."""
    held = []
    for what, slow in (("", False), (f" (from {LEAST_ROUNDS} rounds on, as a slow kernel gets)", True)):
        sound, skipping = worked(noise, 1.0, tries, seed, slow=slow), worked(noise, REWORK, tries, seed, slow=slow)
        least, most = 0.0 if slow else LEAST_SOUND * tries, MOST_SKIPPING * tries
        held += [
            _line(f"a sound kernel meets `work`{what}", sound.met, sound.met.hits >= least),
            _line(f"it is too noisy to tell of it{what}", sound.undecided, True),
            _line(f"one that skips two thirds meets it{what}", skipping.met, skipping.met.hits <= most),
        ]
    return held


def _line(what: str, rate: Rate, holds: bool) -> bool:
    print(f"- {what}: {rate}{'' if holds else '  DOES NOT HOLD'}", flush=True)
    return holds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("noise", type=Path, nargs="*", default=sorted(RECORDED.glob("*.json.gz")))
    parser.add_argument("--confirmations", type=int, default=5000, help="of a kernel against itself")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
