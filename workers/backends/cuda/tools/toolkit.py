"""Finds NVIDIA's tools, and runs candidates under them."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from workers.backends.cuda.tools.solo import PLANS, Plan
from workers.backends.tools import Subject
from workers.system.program import python_path, run

_HOMES = ("CUDA_HOME", "CUDA_PATH")
_USUAL = ("/usr/local/cuda",)


def find_tool(name: str) -> Path | None:
    """Return the path of a tool of the CUDA toolkit, or None if it is not installed."""
    found = (shutil.which(name, path=folder) for folder in _places())
    return next((Path(each) for each in found if each is not None), None)


def _places() -> Iterator[str]:
    yield os.environ.get("PATH", os.defpath)
    homes = [os.environ[name] for name in _HOMES if name in os.environ]
    yield from (str(Path(home) / "bin") for home in (*homes, *_USUAL))
    yield from map(str, sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True))


def watched(
    command: Sequence[str], subjects: Sequence[Subject], folder: Path, *, launches: int, timeout_s: float
) -> tuple[int | None, str]:
    """Run the calls of a candidate under a tool.

    Args:
        command: command line of the tool.
        subjects: one or more cases of the candidate, which run one after another in one process.
        folder: folder for the file that describes the calls.
        launches: number of calls per case. A call of a kernel with several steps makes several launches.
        timeout_s: time limit of the whole run in seconds. A tool makes the kernel many times slower.

    Returns:
        The exit status and the output of the tool. The exit status is None if the time limit was reached.

    Raises:
        GaveUp: the job was interrupted.
    """
    plan = folder / "plan.json"
    plans = [Plan(kernel=each.kernel, inputs=str(each.inputs), launches=launches) for each in subjects]
    plan.write_bytes(PLANS.dump_json(plans))
    first = subjects[0]
    environment = {**os.environ, "PYTHONPATH": python_path(os.environ), "CUDA_VISIBLE_DEVICES": first.device_uuid}
    program = [sys.executable, "-P", "-m", "workers.backends.cuda.tools.solo", str(plan)]
    return run([*command, *program], folder, timeout_s, environment, interruption=first.interruption)
