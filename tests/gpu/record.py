"""Records the output of compute-sanitizer and Nsight Compute: ``python -m tests.gpu.record --to FOLDER``.

Unit tests of the parsers use these recordings: the logs of the sanitizers for a correct kernel and for planted faults,
and the profiler's raw pages for two attention kernels, with warm and cold caches.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from evo.device import Device
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from workers.backends.cuda.device import DRIVER
from workers.backends.cuda.tools.profiler import NcuProfiler
from workers.backends.cuda.tools.profiler import read as read_page
from workers.backends.cuda.tools.sanitizer import TOOLS, CudaSanitizer
from workers.backends.cuda.tools.sanitizer import read as read_log
from workers.backends.cuda.tools.toolkit import find_tool
from workers.backends.tools import Subject
from workers.build.build import Builder
from workers.build.cache import Cache
from workers.build.families import Assignment, Families
from workers.runner.pool import Runners, ask
from workers.runner.protocol import Save, Saved
from workers.system.scratch import scratch

FAULTY = Path(__file__).parent.parent / "data" / "families" / "faulty_cuda"
FAULTS = {
    "none": TOOLS,
    "out_of_bounds_read": ("memcheck",),
    "out_of_bounds_write": ("memcheck",),
    "illegal": ("memcheck",),
    "race": ("racecheck",),
    "uninitialised_workspace": ("initcheck",),
    "barrier": ("synccheck",),
}
ATTENTION = "B=2,H=8,S=512,D=64"
LIMIT_S = 60.0


class Recorder:
    """Runs candidates under a tool and stores the tool's output."""

    def __init__(self, gpu: Device, folder: Path, place: Path) -> None:
        self._gpu, self._folder, self._place = gpu, folder, place
        self._builder = Builder(DRIVER.compiler(), Cache(place / "cache"), place)
        self._runners = Runners(place / "cache")

    @contextmanager
    def subject(self, family: str, problem: str, config: Config | None) -> Iterator[Subject]:
        """Save the inputs of a candidate and yield the candidate. Without `config`, use the family's default config."""
        package = find(family)
        terms = SearchTerms(
            search_id=0,
            family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
            problem=package.family.problem(problem, "cuda"),
            device=self._gpu,
            objective=Objective(),
            policy=Policy(seeds=1),
            seed=0,
        )
        work = Assignment(terms=terms, copy=Families(self._place / "families").add(package))
        chosen = config or package.family.space(terms.problem, self._gpu, terms.objective).default()
        built = self._builder.build(work, chosen)
        assert built.refusal is None, built.refusal
        case = work.cases[0].case.name
        with scratch() as inputs:
            with self._runners.drawn(work) as child:
                ask(child, Save(case=case, folder=str(inputs)), Saved, stage="verify", limit_s=LIMIT_S)
            yield Subject(
                kernel=built.kernels[case],
                unit=work.copy.unit("cuda", built.sources[case], self._gpu.architecture),
                inputs=inputs,
                threads=1,
                device_uuid=self._gpu.uuid,
            )

    def sanitize(self) -> None:
        for fault, tools in FAULTS.items():
            with self.subject(str(FAULTY), "N=256", {"FAULT": fault, "REPEAT": 1}) as subject:
                for tool in tools:
                    status, log = CudaSanitizer.here().run_tool(tool, [subject], timeout_s=LIMIT_S)
                    self._keep(f"{tool}-{fault}.log", f"{log}\n[status {status}]\n")
                    print(fault, read_log(tool, log), flush=True)

    def profile(self) -> None:
        for index, config in enumerate(self._attention()):
            with self.subject("sdpa", ATTENTION, config) as subject:
                for cold in (False, True):
                    status, log = NcuProfiler.here().run_tool(subject, cold=cold, timeout_s=LIMIT_S)
                    self._keep(f"ncu-{index}-{'cold' if cold else 'hot'}.csv", f"{log}\n[status {status}]\n")
                    print(config, read_page(log), flush=True)

    def known(self) -> None:
        """Record the names of the metrics of interest that this GPU has."""
        tool = find_tool("ncu")
        done = subprocess.run([str(tool), "--query-metrics"], capture_output=True, text=True, timeout=60, check=False)
        wanted = re.compile("fp8|pipe_tensor|sectors_per_request|bytes_per_sector|hit_rate|eligible|stalled", re.I)
        self._keep("metrics.txt", "\n".join(line for line in done.stdout.splitlines() if wanted.search(line)))

    def _attention(self) -> list[Config]:
        package = find("sdpa")
        space = package.family.space(package.family.problem(ATTENTION, "cuda"), self._gpu, Objective())
        return [space.default(), *space.sample(np.random.default_rng(1), 1, ())]

    def _keep(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    devices, obstacle = DRIVER.look()
    if not devices:
        print(f"no GPU: {obstacle}", file=sys.stderr)
        return 2
    with scratch() as place:
        recorder = Recorder(devices[0], options.to, place)
        for step in (recorder.sanitize, recorder.profile, recorder.known):
            begun = time.monotonic()
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the remaining steps must still run
                print(f"{step.__name__}: {type(error).__name__}: {error}", flush=True)
            print(f"{step.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
