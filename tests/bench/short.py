"""Compares the candidates per minute of short and long searches: ``make bench-short``.

Each search starts a service and a worker, times baselines and counts its space once. These steps should not use up the
budget of a short search.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.strategy.tables import table

PROBLEMS = {"cpu": "softmax:rows=1024,cols=1024", "cuda": "sdpa:B=2,H=8,S=512,D=64"}
LEAST_SHARE = 0.6
POLICY = {"confirm_processes": 1, "confirm_samples": 10, "final_challengers": 1}
"""Policy with short confirmations, because confirmations run after the budget is used and are not counted."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Number of candidates that one search measured within its budget."""

    minutes: float
    candidates: int

    @property
    def per_minute(self) -> float:
        return self.candidates / self.minutes


def pace(family: str, problem: str, device: str, minutes: float, folder: Path) -> Pace:
    """Run one search with the user's command, on a new database with an empty cache.

    Raises:
        CalledProcessError: the command fails. Its standard output is in the attribute `stdout`.
    """
    policy = folder / "policy.json"
    policy.write_text(json.dumps(POLICY))
    command = [sys.executable, "-m", "evo", "search", family, "--problem", problem, "--device", device]
    command += ["--minutes", str(minutes), "--db", str(folder / "short.db"), "--policy", str(policy), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    counts = json.loads(done.stdout)["counts"]
    return Pace(minutes=minutes, candidates=sum(counts.get(kind, 0) for kind in ("measured", "pruned")))


def main(arguments: Sequence[str]) -> int:
    """Print a table. Return status 1 if the short search's rate is below `LEAST_SHARE` of the long search's rate."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.short", description=__doc__)
    parser.add_argument(
        "problem", nargs="?", metavar="FAMILY:PROBLEM", help="problem to search (default: one for each device)"
    )
    parser.add_argument("--device", choices=tuple(PROBLEMS), default="cpu")
    parser.add_argument("--minutes", nargs=2, type=float, default=(0.4, 2.4), metavar=("SHORT", "LONG"))
    options = parser.parse_args(arguments)
    family, _, problem = (options.problem or PROBLEMS[options.device]).partition(":")
    found: list[Pace] = []
    for minutes in options.minutes:
        with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as name:
            found.append(pace(family, problem, options.device, minutes, Path(name)))
    print(
        table(
            ["minutes", "candidates", "per minute"],
            [[f"{each.minutes:g}", str(each.candidates), f"{each.per_minute:.0f}"] for each in found],
        )
    )
    short, long = found
    share = short.per_minute / max(long.per_minute, 1e-9)
    print(f"\nA short search measures {share:.0%} as many candidates per minute (minimum {LEAST_SHARE:.0%}).")
    return int(share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
