"""Searches a call with the user's command, and interrupts the command when its time is over."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evo.messages.view import SearchView
from evo.search.suite import Call
from tests.bench.searching import BenchError

POLICY = {"confirm_processes": 3, "most_processes": 5, "process_looks": 1, "confirm_samples": 60}
QUICK_POLICY = {**POLICY, "confirming_share": 1e-6}
"""Policies of searches with and without a confirmation."""

STARTING_S = 15.0
"""Seconds in which service, worker and devices of a search start. They are not part of the duration of the search."""

PARTING_S = 20.0
"""Seconds that a cancelled search has to print its report."""

_VIEW = TypeAdapter(SearchView)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Device and durations of each search.

    Attributes:
        seconds: duration of a search in seconds.
        confirming: maximum duration of the confirmation in seconds. With 0, it is interrupted when the search ends.
    """

    device: str
    seconds: float
    confirming: float

    @property
    def limit_s(self) -> float:
        return STARTING_S + self.seconds + self.confirming


def searched(call: Call, cache: str, terms: Terms, folder: Path) -> SearchView:
    """Search a call in a separate process, and return the search.

    Args:
        folder: folder for database and policy. Compiled kernels are stored in the machine's cache.

    Raises:
        BenchError: the search printed no result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "policy.toml"
    chosen = POLICY if terms.confirming else QUICK_POLICY
    policy.write_text("".join(f"{name} = {value}\n" for name, value in chosen.items()))
    command = [sys.executable, "-m", "evo", "search", call.family, "--problem", call.text, "--json"]
    command += ["--db", str(folder / "bench.db"), "--device", terms.device, "--minutes", f"{terms.seconds / 60:.4f}"]
    command += ["--cache", cache, "--policy", str(policy)]
    out, err = _ended(command, {**os.environ, "OMP_NUM_THREADS": "1"}, terms.limit_s)
    try:
        return _VIEW.validate_json(out)
    except ValidationError:
        raise BenchError((err.strip().splitlines() or ["the search printed nothing"])[-1][:200]) from None


def _ended(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> tuple[str, str]:
    """Run a search and return its output. After `limit_s`, interrupt it as with Ctrl-C, and finally kill it."""
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    for patience_s in (limit_s, 5.0, PARTING_S):
        try:
            return running.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    return "", f"the search did not end within {PARTING_S:g} s after it was cancelled"
