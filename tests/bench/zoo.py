"""The zoo's calls against every baseline there is: ``make bench-zoo``.

Each call is searched as a user would, from what the program ships, in a database of its own; the ratio is that of the
confirmed best config to the fastest baseline, which the confirmation times in the same processes. Each finished call
prints its row at once, so a run that is cut off shows what was done.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evo.suite import Call, Suite, suite_from
from templates.suites import find
from tests.bench.strategy.tables import table

COLD = ("softmax", "rmsnorm", "layernorm", "reduce", "transpose", "sdpa_decode", "swiglu", "rope", "cross_entropy")
"""Families whose data comes from memory in a model; the others are timed hot."""

LEVEL, LEAST, MEAN, SHARE = 0.98, 0.9, 1.2, 0.95
"""Goals: level with the fastest baseline, the least ratio of any call, the geometric mean, and the share of calls at
least level."""

POLICY = {"confirm_processes": 3, "most_processes": 5, "process_looks": 1, "confirm_samples": 60}
PARTING_S = 20.0
"""Seconds that a cancelled search has for its report."""

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
"""The zoo in small, for a CPU."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Result of one call; `trouble` says why there is no time."""

    call: Call
    time_us: float | None = None
    baseline: str | None = None
    ratio: float | None = None
    trials: int = 0
    trouble: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    terms = _terms(arguments)
    suite = _chosen(terms)
    end, rows = time.monotonic() + terms.within, list[Row]()
    with tempfile.TemporaryDirectory(prefix="bench-zoo-") as folder:
        policy = Path(folder, "policy.toml")
        policy.write_text("".join(f"{name} = {value}\n" for name, value in POLICY.items()))
        for call in suite.calls:
            if time.monotonic() + terms.seconds + 15.0 > end:
                rows.append(Row(call=call, trouble="no time left"))
                continue
            rows.append(searched(call, terms, policy, Path(folder, f"{len(rows)}.db")))
            _say(rows[-1])
    print(
        table(
            ("call", "family", "problem", "time, µs", "fastest baseline", "ratio", "trials"),
            [_cells(row) for row in rows],
        )
    )
    print(summary(rows))
    return 0


def searched(call: Call, terms: argparse.Namespace, policy: Path, database: Path) -> Row:
    """Search one call in a process of its own."""
    cache = "cold" if call.family in COLD and terms.device != "cpu" else "hot"
    command = [sys.executable, "-m", "evo", "search", call.family, "--problem", call.text, "--json", "--db", database]
    command += [
        "--device",
        terms.device,
        "--minutes",
        f"{terms.seconds / 60:.4f}",
        "--cache",
        cache,
        "--policy",
        policy,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    limit_s = terms.seconds + terms.confirming
    out, err, late = _ended(list(map(str, command)), environment, limit_s)
    try:
        view = json.loads(out)
    except ValueError:
        return Row(call=call, trouble=(err.strip().splitlines() or ["no output"])[-1][:200])
    row = row_of(call, view)
    return replace(row, trouble=f"not confirmed within {limit_s:g} s") if late and row.ratio is not None else row


def _ended(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> tuple[str, str, bool]:
    """Run a search; one that takes longer is interrupted as by Ctrl-C, and reports what it has.

    Returns:
        Its output, its messages, and whether it was interrupted.
    """
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    for number, patience_s in enumerate((limit_s, 5.0, PARTING_S)):
        try:
            out, err = running.communicate(timeout=patience_s)
            return out, err, number > 0
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    return "", f"no end {PARTING_S:g} s after it was cancelled", True


def row_of(call: Call, view: dict[str, Any]) -> Row:
    """Return the row of an ended search."""
    if view["best"] is None:
        return Row(call=call, trials=view["finished"], trouble=view["reason"] or "no config was measured")
    return Row(
        call=call,
        time_us=view["best"]["time_us"],
        baseline=view["fastest_baseline"],
        ratio=view["speedup"],
        trials=view["finished"],
    )


def summary(rows: Sequence[Row]) -> str:
    """Compare the ratios with the goals."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    missing = [row for row in rows if row.ratio is None]
    if not ratios:
        return f"No call of {len(rows)} has a ratio."
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    level = sum(ratio >= LEVEL for ratio in ratios)
    return (
        f"{level} of {len(ratios)} calls at least level ({LEVEL}; goal {SHARE:.0%}), least ratio {min(ratios):.2f} "
        f"(goal {LEAST}), geometric mean {mean:.2f} (goal {MEAN}); {len(missing)} calls without a ratio"
    )


def _chosen(terms: argparse.Namespace) -> Suite:
    suite = suite_from(ON_CPU, "zoo in small") if terms.device == "cpu" and terms.suite == "zoo" else find(terms.suite)
    calls = [call for call in suite.calls if not terms.only or any(each in call.name for each in terms.only)]
    if not calls:
        raise SystemExit(f"no call of suite {suite.name} has any of {', '.join(terms.only)} in its name")
    return Suite(name=suite.name, calls=tuple(calls), goal=suite.goal)


def _say(row: Row) -> None:
    print(*_cells(row), sep="  ", flush=True)


def _cells(row: Row) -> tuple[str, ...]:
    time_us = "–" if row.time_us is None else f"{row.time_us:.2f}"
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    return (
        row.call.name,
        row.call.family,
        row.call.text,
        time_us,
        " ".join(filter(None, (row.baseline, row.trouble))),
        ratio,
        str(row.trials),
    )


def _terms(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-zoo", description=__doc__)
    parser.add_argument("only", nargs="*", help="only calls with one of these in their names")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu: the zoo in small (default: cuda)")
    parser.add_argument("--suite", default="zoo", help="another suite: a name or a file")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search, without its confirmation")
    parser.add_argument("--confirming", type=float, default=120.0, help="seconds for the confirmation")
    parser.add_argument("--within", type=float, default=7200.0, help="seconds of the whole run")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
