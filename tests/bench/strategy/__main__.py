"""Compares strategies and tuners; archived runs are reused: ``python -m tests.bench.strategy``."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # libraries get one thread, because proposals are timed by processor time

from evo.errors import EvoError, InvalidInput
from tests.bench.strategy import asking, ours, report, tournament
from tests.bench.strategy.agreement import check_baseline
from tests.bench.strategy.archive import Archive
from tests.bench.strategy.baseline import SHARE
from tests.bench.strategy.field import Effort
from tests.bench.strategy.ground import FIGURES, SPACES, load, paths
from tests.bench.strategy.player import Contestant

QUESTIONS = ("evaluations", "crowd", "asking", "ablation", "steps", "failing", "noisy", "transfer", "functions")
ON_REQUEST = ("rivals", "problems")
"""Comparisons that run only if they are named. `rivals` is part of `evaluations`; `problems` has spaces of its own."""

QUICK_SEEDS = 5
QUICK_LENGTHS = (100, 1_000, 2_000)


def main(arguments: Sequence[str]) -> int:
    """Run the comparisons and print their tables.

    Returns:
        Exit status: 1 if a required result is missed, 2 for invalid arguments.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        chosen = _spaces(options.spaces, options.space)
        contestants = _chosen(options.contestant, options.quick)
    except InvalidInput as error:
        parser.error(str(error))
    effort = Effort(
        archive=Archive(options.archive),
        paths=chosen,
        seeds=QUICK_SEEDS if options.quick else options.seeds,
        processes=options.jobs,
        share=options.share,
    )
    told = report.Report(tell=lambda text: print(text, flush=True), judges=not options.quick)
    report.heading(told, effort)
    told.add(check_baseline(effort.grounds))
    _ask(told, effort, contestants, options)
    _write(told, options.to)
    if not told.judges:
        print("the requirements are not checked, because a quick run has too few runs", file=sys.stderr)
    for failure in told.missed:
        print(f"required result missed: {failure}", file=sys.stderr)
    return int(bool(told.missed))


def _ask(told: report.Report, effort: Effort, contestants: list[Contestant], options: argparse.Namespace) -> None:
    questions = options.question or QUESTIONS
    if "evaluations" in questions:
        report.ask_evaluations(told, effort, contestants)
    if "rivals" in questions:
        report.ask_rivals(told, effort, contestants)
    if "crowd" in questions:
        report.ask_crowd(told, effort)
    if "asking" in questions:
        report.ask_costs(told, QUICK_LENGTHS if options.quick else asking.LENGTHS)
    if "ablation" in questions:
        report.ask_ablation(told, effort)
    if "steps" in questions:
        report.ask_steps(told, effort)
    if "failing" in questions:
        report.ask_failing(told, effort)
    if "noisy" in questions:
        report.ask_noisy(told, effort)
    if "transfer" in questions:
        report.ask_transfer(told, effort)
    if "problems" in questions:
        report.ask_problems(told, effort.seeds)
    if "functions" in questions:
        report.ask_functions(told, effort)


def _spaces(folder: Path, prefix: str | None) -> list[Path]:
    """Return the recordings of a folder.

    Raises:
        InvalidInput: the folder contains no recordings, or a recording cannot be read.
    """
    there = list(paths(folder))
    chosen = [path for path in there if path.name.startswith(prefix or "")]
    if not there:
        raise InvalidInput("--spaces", f"{folder} is not a folder with recordings (*.json, *.json.gz)")
    if not chosen:
        raise InvalidInput(
            "--space", f"no recording has a name that begins with {prefix!r}: {', '.join(path.name for path in there)}"
        )
    for path in chosen:
        try:
            load(path)
        except (EvoError, OSError) as error:
            raise InvalidInput("--spaces", f"{path} is not a recording: {error}") from None
    return chosen


def _chosen(names: Sequence[str] | None, quick: bool) -> list[Contestant]:
    """Return the named contestants or, without names, all except variants.

    Args:
        quick: True to exclude slow contestants.

    Raises:
        InvalidInput: a contestant does not exist.
    """
    variants = {each.name for each in [*ours.variants(), *ours.steps(), *ours.crowded()]}
    everybody = [each for each in tournament.contestants().values() if each.name not in variants]
    known = [each.name for each in everybody]
    if unknown := [name for name in names or () if name not in known]:
        raise InvalidInput("--contestant", f"there is no contestant {unknown[0]!r}; use one of: {', '.join(known)}")
    if names:
        return [each for each in everybody if each.name in (report.DEFAULT, *names)]
    return [each for each in everybody if each.share == 1.0 or not quick]


def _write(told: report.Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.md").write_text("\n".join(told.page))
    (folder / FIGURES).write_text(json.dumps(told.figures | {"missed": told.missed}, indent=1) + "\n")
    print(f"written to {folder}/tables.md and {FIGURES}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-strategy", description=__doc__)
    parser.add_argument(
        "--seeds",
        type=_count(2),
        default=100,
        metavar="N",
        help="number of runs per contestant and space (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds, short logs, no slow contestants")
    parser.add_argument(
        "--question", action="append", choices=QUESTIONS + ON_REQUEST, help="run only this comparison; may be repeated"
    )
    parser.add_argument(
        "--contestant",
        action="append",
        metavar="NAME",
        help="contestant to compare with the default strategy; may be repeated",
    )
    parser.add_argument("--space", metavar="PREFIX", help="use only spaces whose file names begin with PREFIX")
    parser.add_argument(
        "--spaces", type=Path, default=SPACES, metavar="FOLDER", help="folder of recordings (*.json, *.json.gz)"
    )
    parser.add_argument(
        "--share",
        type=_share,
        default=SHARE,
        metavar="S",
        help="fraction of the gap to the optimum that random search closes until the end (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=_count(0),
        metavar="N",
        default=os.cpu_count() or 1,
        help="number of parallel processes; 0 uses only stored runs (default: %(default)s)",
    )
    parser.add_argument(
        "--archive",
        type=_folder,
        metavar="FOLDER",
        default=Path("build/bench-strategy/runs"),
        help="folder of stored runs",
    )
    parser.add_argument(
        "--to", type=_folder, metavar="FOLDER", default=Path("build/bench-strategy"), help="folder of the report"
    )
    return parser


def _count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected an integer of at least {least}, got {text!r}")
        return int(text)

    return read


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, got {text!r}")
    return share


def _folder(text: str) -> Path:
    if (path := Path(text)).exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file; give a folder")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
