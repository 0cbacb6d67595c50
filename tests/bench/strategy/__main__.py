"""``python -m tests.bench.strategy``: every table in one go; what was played before is taken from the archive."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # asking is timed by processor time: one thread, here and in children

from tests.bench.strategy import asking, report, tournament
from tests.bench.strategy.agreement import check_baseline
from tests.bench.strategy.archive import Archive
from tests.bench.strategy.baseline import SHARE
from tests.bench.strategy.field import Effort
from tests.bench.strategy.ground import FIGURES, SPACES, paths
from tests.bench.strategy.player import Contestant

QUESTIONS = ("evaluations", "crowd", "asking", "ablation", "steps", "failing", "noisy", "transfer")
QUICK_SEEDS = 5
QUICK_LENGTHS = (100, 1_000, 2_000)


def main(arguments: Sequence[str]) -> int:
    """Play, print the tables; status 1 when something that must hold does not, 2 when the arguments are wrong."""
    options = _parser().parse_args(arguments)
    chosen = [path for path in paths(options.spaces) if not options.space or path.name.startswith(options.space)]
    contestants = _chosen(options.contestant, options.quick)
    if not chosen or not contestants:
        print("bench-strategy: no such space, or no such contestant", file=sys.stderr)
        return 2
    effort = Effort(
        archive=Archive(options.archive),
        paths=chosen,
        seeds=QUICK_SEEDS if options.quick else options.seeds,
        processes=options.jobs,
        share=options.share,
    )
    told = report.Report(tell=lambda text: print(text, flush=True))
    report.heading(told, effort)
    told.add(check_baseline(effort.grounds))
    _ask(told, effort, contestants, options)
    _write(told, options.to)
    for failure in told.missed:
        print(f"does not hold: {failure}", file=sys.stderr)
    return int(bool(told.missed))


def _ask(told: report.Report, effort: Effort, contestants: list[Contestant], options: argparse.Namespace) -> None:
    questions = options.question or QUESTIONS
    if "evaluations" in questions:
        report.ask_evaluations(told, effort, contestants)
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


def _chosen(names: Sequence[str] | None, quick: bool) -> list[Contestant]:
    """Those named, or everybody but the variants; the slow ones are left out of a quick look."""
    variants = {each.name for each in [*report.ours.variants(), *report.ours.steps(), *report.ours.crowded()]}
    everybody = [each for each in tournament.contestants().values() if each.name not in variants]
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
    parser.add_argument("--seeds", type=int, default=100, help="runs of a contestant on a space (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds, short logs, no slow contestants")
    parser.add_argument("--question", action="append", choices=QUESTIONS, help="only this table; may be repeated")
    parser.add_argument("--contestant", action="append", metavar="NAME", help="beside the default; may be repeated")
    parser.add_argument("--space", metavar="PREFIX", help="only spaces whose file name begins so")
    parser.add_argument("--spaces", type=Path, default=SPACES, metavar="FOLDER", help="recordings (*.json, *.json.gz)")
    parser.add_argument("--share", type=float, default=SHARE, help="where the time axis ends (default: %(default)s)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes; 0: only what was played (default: %(default)s)",
    )
    parser.add_argument("--archive", type=Path, default=Path("build/bench-strategy/runs"), help="runs played before")
    parser.add_argument("--to", type=Path, default=Path("build/bench-strategy"), help="where the report is written")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
