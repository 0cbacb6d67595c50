"""Times configs that differ in a few values, and the baselines: ``python -m tests.bench.grid FILE``.

FILE is a stored result of a search (docs/results/champions). Its champion is the first row. Each ``--change``, e.g.
``"Q_STAGES=2 SCHEDULE=stream_k"``, adds a row. All configs are verified and timed in one process.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from evo.errors import EvoError, InvalidInput
from evo.trial import Config
from evo.trial.explain import detail_text
from templates.registry import find
from tests.bench.contest import compare, device_at_hand, terms_of, workshop
from tests.bench.found import Found, kept
from tests.bench.searching import BenchError
from tests.bench.strategy.tables import table
from workers.build.families import Assignment
from workers.jobs.evaluation import Evaluator
from workers.runner.pool import Runners
from workers.runner.protocol import Compared


def main(arguments: Sequence[str]) -> int:
    """Print the table. Return status 2 if nothing could be compared."""
    options = _parser().parse_args(arguments)
    try:
        found = kept(options.file)
        with tempfile.TemporaryDirectory(prefix="kernel-evo-grid-") as folder:
            print(_rows(found, [_changes(each) for each in options.change], options, Path(folder)))
    except (BenchError, EvoError) as error:
        print(f"grid: {error}", file=sys.stderr)
        return 2
    return 0


def _changes(text: str) -> Config:
    """Parse the changes in a text, and return the values by tunable. Values are numbers, booleans or strings.

    Raises:
        InvalidInput: a part does not have the form NAME=VALUE.
    """
    changes: dict[str, bool | int | float | str] = {}
    for part in text.split():
        name, sign, value = part.partition("=")
        if not (name and sign and value):
            raise InvalidInput("--change", f"{part!r} is not of the form NAME=VALUE")
        try:
            changes[name] = json.loads(value.lower() if value in ("True", "False") else value)
        except json.JSONDecodeError:
            changes[name] = value
    return changes


def _rows(found: Found, changes: Sequence[Config], options: argparse.Namespace, folder: Path) -> str:
    package = find(found.family)
    device = device_at_hand(found, package, options.device, folder)
    with workshop(terms_of(found, device, package, seed=0), package, folder) as (evaluator, runners, work):
        space = work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective)
        configs = {"champion": found.whole(space)}
        for each in changes:
            space.check(config := {**configs["champion"], **each})
            configs[" ".join(f"{name}={value}" for name, value in each.items())] = config
        return _ratio_table(_timed(evaluator, runners, work, configs, options.rounds))


def _timed(
    evaluator: Evaluator, runners: Runners, work: Assignment, configs: Mapping[str, Config], rounds: int
) -> Compared:
    kernels = {}
    for name, config in configs.items():
        built = evaluator.build(work, config)
        if built.refusal is not None:
            print(f"refused: {name}: {detail_text(built.refusal)}", file=sys.stderr)
            continue
        kernels[name] = built.kernels
    return compare(runners, work, kernels, {name: name for name in kernels}, rounds)


def _ratio_table(compared: Compared) -> str:
    """Return a table with each config's median time and its median speed-up over each baseline."""
    against = {name: np.array(each.samples_us) for name, each in compared.baselines.items()}
    rows = [
        [
            name,
            f"{timing.median_us:.5g}",
            *(f"{np.median(us / np.array(timing.samples_us)):.3f}" for us in against.values()),
        ]
        for name, timing in compared.series.items()
    ]
    return table(["", "µs", *(f"× {name}" for name in against)], rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="grid", description=__doc__)
    parser.add_argument("file", type=Path, help="stored result of a search")
    parser.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="CHANGES",
        help="values of tunables of another row; may be repeated",
    )
    parser.add_argument("--device", default="cuda", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=40, help="samples per row (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
