"""The figures of docs/benchmarks.md for this machine's CPU: ``python -m tests.bench.cpu``, or ``make bench``."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evo.errors import EvoError
from tests.bench.contest import BenchError, Effort, hold
from tests.bench.report import Wanted, failures, heading, section

Contests = Sequence[tuple[str, str, Wanted]]
"""Family, problem, and what must hold of it."""

ATTENTION = {"numpy": 3.0, "torch": 0.8}
CONTESTS: Contests = (
    ("sdpa", "B=1,H=8,S=256,D=64", ATTENTION),
    ("sdpa", "B=2,H=8,S=512,D=64", ATTENTION),
    ("softmax", "rows=1024,cols=1024", {}),
    ("softmax", "rows=4096,cols=1024", {}),
)


def main(arguments: list[str], contests: Contests = CONTESTS, device: str = "cpu") -> int:
    """Hold the contests, print the tables; status 1 when something that must hold does not."""
    options = _parser().parse_args(arguments)
    effort = Effort(
        trials=options.trials,
        minutes=options.minutes,
        sample=options.sample,
        rounds=options.rounds,
        seed=options.seed,
        device=device,
    )
    missed: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as folder:
            chosen = [
                each for each in contests if options.family in ("all", each[0]) and options.problem in (None, each[1])
            ]
            for place, (family, problem, wanted) in enumerate(chosen):
                contest = hold(family, problem, effort, Path(folder))
                if place == 0:
                    _tell(heading(contest), options.append)
                _tell(section(contest), options.append)
                missed += failures(contest, wanted)
    except (BenchError, EvoError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    for failure in missed:
        print(f"does not hold: {failure}", file=sys.stderr)
    return int(bool(missed))


def _tell(text: str, append_to: Path | None) -> None:
    print(text, flush=True)
    if append_to:
        with append_to.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=("all", "sdpa", "softmax"), default="all")
    parser.add_argument("--problem", help="of the tables only the one of this problem, written as in the table")
    parser.add_argument("--trials", type=int, default=60, help="of each search (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each search at most (default: %(default)s)")
    parser.add_argument("--sample", type=int, default=30, help="random configs of each space (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=60, help="samples of each contestant (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--append", type=Path, metavar="FILE", help="also append the tables to this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
