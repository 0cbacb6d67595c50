"""Compares kernels for calls of public models (the suite *zoo*) with all baselines: ``make bench-zoo``.

Each call is searched with the user's command, from the built-in starts, in a new database. The speed-up over the
fastest baseline is from the search's confirmation if one ended in time. Otherwise, the best config and all baselines
are timed interleaved in a fresh process. The row of each call is printed immediately and appended to the file of
results. A later run with the same file continues with the remaining calls.
"""

import argparse
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evo.errors import EvoError
from evo.messages.view import SearchView
from evo.search.suite import Call, Suite, suite_from
from templates.suites import find
from tests.bench.searching import BenchError
from tests.bench.strategy.tables import table
from tests.bench.zoo.alongside import alongside
from tests.bench.zoo.row import HEADER, Results, Row
from tests.bench.zoo.search import PARTING_S, Terms, searched

COLD = ("softmax", "rmsnorm", "layernorm", "reduce", "transpose", "sdpa_decode", "swiglu", "rope", "cross_entropy")
"""Families that are timed with cold caches, because their data comes from memory in a model."""

LEVEL, LEAST, MEAN, SHARE = 0.98, 0.9, 1.2, 0.95
"""Goals: ratio that counts as equally fast, minimum ratio of a call, geometric mean, and fraction of calls that are at
least equally fast.
"""

ON_CPU = {"call": [
    {"name": "softmax-odd", "family": "softmax", "problem": {"rows": 256, "cols": 1003}},
    {"name": "rmsnorm-bf16", "family": "rmsnorm", "problem": {"rows": 256, "cols": 1024, "dtype": "bfloat16"}},
    {"name": "rmsnorm-residual", "family": "rmsnorm", "problem": {"rows": 256, "cols": 1024, "residual": True}},
    {"name": "layernorm", "family": "layernorm", "problem": {"rows": 256, "cols": 1024, "residual": False}},
    {"name": "prefill", "family": "sdpa", "problem": {"H": 8, "KV": 2, "S": 256, "causal": True}},
    {"name": "window", "family": "sdpa", "problem": {"H": 4, "S": 512, "causal": True, "window": 128}},
    {"name": "cross", "family": "sdpa", "problem": {"H": 4, "S": 512, "S_KV": 77}},
    {"name": "decode", "family": "sdpa_decode", "problem": {"H": 8, "KV": 2, "S": 1024, "D": 64}},
    {"name": "linear", "family": "gemm", "problem": {"M": 64, "N": 512, "K": 512, "b_layout": "nk"}},
]}  # fmt: skip
"""Smaller calls for a CPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    suite = _chosen(options)
    results = Results(options.results)
    terms = Terms(device=options.device, seconds=options.seconds, confirming=options.confirming)
    longest_s = terms.limit_s + PARTING_S + options.comparing
    end = time.monotonic() + options.within
    with tempfile.TemporaryDirectory(prefix="bench-zoo-") as folder:
        for number, call in enumerate(interleaved(suite.calls)):
            row = empty(call, options.device)
            if results.get(row.key) is not None:
                continue
            if time.monotonic() + longest_s > end:
                break
            results.add(measured(call, row, terms, Path(folder, str(number)), comparing_s=options.comparing))
            print(*results.row(row.key).cells, sep="  ", flush=True)
    rows = [results.row(row.key) if row.key in results else row for row in _empty_rows(suite, options.device)]
    print(table(HEADER, [row.cells for row in rows]))
    print(summary(rows, results.devices))
    return 0


def interleaved(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the first call of each family, then the second calls, …, so that a short run covers all families."""
    families: dict[str, list[Call]] = {}
    for call in calls:
        families.setdefault(call.family, []).append(call)
    for turn in itertools.zip_longest(*families.values()):
        yield from (call for call in turn if call is not None)


def measured(call: Call, row: Row, terms: Terms, folder: Path, *, comparing_s: float) -> Row:
    """Search a call. Return its row with the speed-up, or with the reason why there is none."""
    try:
        view = searched(call, row.cache, terms, folder)
        row = replace(row, device=view.device.model, trials=view.finished, seconds=terms.seconds, trouble="")
        if view.best is None:
            return replace(row, trouble=view.reason or "no config was measured")
        if (confirmed := confirmed_row(row, view)) is not None:
            return confirmed
        found = alongside(view, kind=terms.device, budget_s=comparing_s)
    except (BenchError, EvoError) as error:
        return replace(row, trouble=str(error).splitlines()[0][:200])
    return replace(row, config=view.best.config, timed="side by side", **vars(found))


def confirmed_row(row: Row, view: SearchView) -> Row | None:
    """Return the row with the times of the promoted config; None if no promotion with a baseline exists."""
    champion = view.champion
    if champion is None or champion.verdict is None or champion.verdict.baseline_speedup is None:
        return None
    return replace(
        row,
        time_us=champion.time_us,
        baseline=champion.verdict.baseline,
        ratio=champion.verdict.baseline_speedup,
        timed="confirmed",
        config=champion.config,
    )


def summary(rows: Sequence[Row], devices: Sequence[str] = ()) -> str:
    """Return a sentence that compares the speed-ups with the goals."""
    ratios = [row.ratio.estimate for row in rows if row.ratio is not None]
    missing = len(rows) - len(ratios)
    if not ratios:
        return f"No call of {len(rows)} has a ratio."
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    level = sum(ratio >= LEVEL for ratio in ratios)
    return (
        f"{level} of {len(ratios)} calls at least as fast ({LEVEL}; goal {SHARE:.0%}), least ratio {min(ratios):.2f} "
        f"(goal {LEAST}), geometric mean {mean:.2f} (goal {MEAN}); {missing} calls without a ratio"
        + (f"; on {', '.join(devices)}" if devices else "")
    )


def empty(call: Call, device: str) -> Row:
    """Return the row of a call that was not measured."""
    cache = "cold" if call.family in COLD and device != "cpu" else "hot"
    return Row(name=call.name, family=call.family, problem=call.text, cache=cache, trouble="not measured")


def _empty_rows(suite: Suite, device: str) -> list[Row]:
    return [empty(call, device) for call in suite.calls]


def _chosen(options: argparse.Namespace) -> Suite:
    small = options.device == "cpu" and options.suite == "zoo"
    suite = suite_from(ON_CPU, "small zoo") if small else find(options.suite)
    calls = [call for call in suite.calls if not options.only or any(each in call.name for each in options.only)]
    if not calls:
        raise SystemExit(f"no call of suite {suite.name} has a name that contains {', '.join(options.only)}")
    return Suite(name=suite.name, calls=tuple(calls), goal=suite.goal)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-zoo", description=__doc__)
    parser.add_argument("only", nargs="*", help="search only calls whose names contain one of these texts")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for smaller calls (default: cuda)")
    parser.add_argument("--suite", default="zoo", help="name or file of a suite (default: the zoo)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="duration of a search in seconds (default: %(default)g)"
    )
    parser.add_argument(
        "--confirming",
        type=float,
        default=0.0,
        help="seconds to wait for the search's own confirmation before the comparison in one process takes its place "
        "(default: %(default)g)",
    )
    parser.add_argument(
        "--comparing", type=float, default=30.0, help="maximum duration of the rounds of this comparison in seconds"
    )
    parser.add_argument("--within", type=float, default=7200.0, help="maximum duration of the whole run in seconds")
    parser.add_argument(
        "--results", type=Path, help="file of results (JSON lines); calls with a ratio in it are not repeated"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
