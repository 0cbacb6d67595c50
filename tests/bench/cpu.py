"""Runs the benchmarks of docs/results on this machine's CPU: ``python -m tests.bench.cpu`` or ``make bench``."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evo.errors import EvoError
from tests.bench.contest import hold
from tests.bench.report import failures, heading, section
from tests.bench.searching import BenchError, Effort, Match

ATTENTION = {"numpy": 3.0, "torch": 0.8}
DECODE = {"numpy-in-place": 1.5, "torch": 1.5}
MATCHES = (
    Match(family="sdpa", problem="B=1,H=8,S=256,D=64", least=ATTENTION),
    Match(family="sdpa", problem="B=2,H=8,S=512,D=64", least=ATTENTION),
    Match(family="sdpa_decode", problem="B=1,H=32,KV=8,S=4096,D=128", least=DECODE),
    Match(family="softmax", problem="rows=1024,cols=1024"),
    Match(family="softmax", problem="rows=4096,cols=1024"),
    Match(family="gemm", problem="M=1024,N=1024,K=1024", least={"numpy": 0.9}),
    Match(family="gemm", problem="M=16,N=2048,K=2048", least={"numpy": 0.9}),
    Match(family="gemm_fp8", problem="M=256,N=512,K=1024", least={"numpy": 1.0, "torch": 1.0}),
    Match(family="sdpa_fp8", problem="B=1,H=8,S=256,D=64,accuracy=fine", least={"numpy": 1.0, "torch": 1.0}),
    Match(family="quantize_e4m3", problem="B=1,H=8,S=256,D=64", least={"numpy": 1.0, "torch": 1.0}),
    Match(family="rmsnorm", problem="rows=1024,cols=1024", least={"numpy": 1.0, "torch": 1.0}),
    Match(family="layernorm", problem="rows=1024,cols=1024", least={"numpy": 1.0, "torch": 1.0}),
    Match(family="transpose", problem="rows=1024,cols=1024", least={"numpy": 1.0, "torch": 1.0}),
    Match(family="reduce", problem="rows=1024,cols=1024", least={"numpy": 1.0, "torch": 1.0}),
)


def main(
    arguments: list[str], matches: Sequence[Match] = MATCHES, *, device: str = "cpu", trials: int = 60, rounds: int = 60
) -> int:
    """Run the contests and print their tables.

    Returns:
        Exit status: 1 if a required result is missed, 2 if a contest did not run.
    """
    options = _parser(trials, rounds).parse_args(arguments)
    chosen = _chosen(matches, options.family, options.problem)[options.first : options.last]
    missed: list[str] = []
    status, headed = 0, False
    with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as folder:
        for match in chosen:
            try:
                contest = hold(match, _effort(options, match, device), Path(folder))
            except (BenchError, EvoError) as error:
                print(f"bench: {error}", file=sys.stderr)
                status = 2
                continue
            if not headed:
                _tell(heading(contest), options.append)
            headed = True
            _tell(section(contest), options.append)
            missed += failures(contest, match)
    for failure in missed:
        print(f"required result missed: {failure}", file=sys.stderr)
    return status or int(bool(missed))


def _chosen(matches: Sequence[Match], family: str, problem: str | None) -> Sequence[Match]:
    """Return the contests of a family and problem.

    For a named family without contests, a new contest is returned, by default for the family's default problem.
    """
    chosen = [each for each in matches if family in ("all", each.family) and problem in (None, each.problem)]
    return chosen or ([] if family == "all" else [Match(family=family, problem=problem or "")])


def _effort(options: argparse.Namespace, match: Match, device: str) -> Effort:
    return Effort(
        trials=options.trials,
        minutes=match.minutes if options.minutes is None else options.minutes,
        sample=options.sample,
        rounds=options.rounds,
        seed=options.seed,
        device=device,
        from_default=options.from_default,
        champions=options.champions,
    )


def _tell(text: str, append_to: Path | None) -> None:
    print(text, flush=True)
    if append_to:
        with append_to.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


def _parser(trials: int, rounds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", default="all", help="run only this family, which may be a family without contests")
    parser.add_argument("--problem", help="run only contests of this problem, written as in the table")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="skip the first N contests")
    parser.add_argument("--last", type=int, metavar="N", help="end before contest number N, counted from 0")
    parser.add_argument("--trials", type=int, default=trials, help="trials per search (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, help="maximum duration of a search in minutes (default: as set by each contest)"
    )
    parser.add_argument("--sample", type=int, default=30, help="random configs per space (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=rounds, help="samples per contestant (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from-default", action="store_true", help="start searches only with the default config")
    parser.add_argument(
        "--champions",
        type=Path,
        metavar="FOLDER",
        help="folder of champions; stored champions are compared without a search, new champions are stored in it",
    )
    parser.add_argument("--append", type=Path, metavar="FILE", help="also append the tables to this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
