"""Runners reuse the memory of freed arrays, except runners that time baselines."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evo.messages.job import Evaluate
from evo.trial.results import EvaluateReport
from tests.integration.workbench import cpu, faulty, terms
from tests.measured import measured
from workers.build.families import Assignment, Families
from workers.jobs.evaluation import Evaluator
from workers.runner.plan import open_request
from workers.runner.protocol import Open

ARRAYS = """
import ctypes, json, resource
import psutil
from workers.runner.heap import keep_freed_memory, return_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = (ctypes.c_void_p,)
BYTES = 64 << 20

def faults(arrays):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(arrays):
        address = libc.malloc(BYTES)
        ctypes.memset(address, 1, BYTES)
        libc.free(address)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

new = faults(2)
keep_freed_memory()
faults(1)
reused = faults(2)
held = psutil.Process().memory_info().rss
return_freed_memory()
print(json.dumps({"new": new, "reused": reused, "returned": held - psutil.Process().memory_info().rss}))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc"
)
def test_freed_memory_of_a_runner_is_reused_until_returned_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", ARRAYS], stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    assert found["new"] > 1000
    assert found["reused"] < 100
    assert found["returned"] > 60 << 20


def test_only_runners_that_time_baselines_return_freed_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, kept = measured(tmp_path / "cache"), list[bool]()

    def recorded(*arguments: Any, **named: Any) -> Open:
        request = open_request(*arguments, **named)
        kept.append(request.keeps_memory)
        return request

    monkeypatch.setattr("workers.runner.pool.open_request", recorded)
    work = Assignment(terms=terms(cpu(folder), faulty()), copy=Families(tmp_path / "families").add(faulty()))
    job = Evaluate(
        number=0, config=work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective).default()
    )
    evaluator = Evaluator("cpu", folder, tmp_path / "place")
    try:
        evaluated = evaluator.perform(work, job, evaluator.prepare(work, job))
        assert isinstance(evaluated, EvaluateReport)
        assert kept == [True, True]  # the request to prepare, and the request to open
        evaluator.baseline(work)
        assert kept == [True, True, False]
    finally:
        evaluator.close()
