"""Records the noise of a device over many fresh runners: ``python -m tests.bench.verdict.record --to FILE``."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from evo.device import Device, DeviceKind
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.text.wording import settings_text
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from tests.bench.verdict.layout import Shifted, stack
from tests.bench.verdict.noise import SERIES, Noise
from workers.backends import driver
from workers.build.build import Builder, Built
from workers.build.cache import Cache
from workers.build.families import Assignment, Families
from workers.runner.pool import CandidateFault, Runners, ask
from workers.runner.protocol import Compare, Compared, Verified, Verify
from workers.system.device_lock import exclusive
from workers.system.scratch import scratch

NEAR = 1.6
"""Maximum time of the second kernel, relative to the default. The first drawn config below this time is used."""


class Recorder:
    """Times two configs of a family in many processes."""

    def __init__(self, work: Assignment, folder: Path, place: Path) -> None:
        self._work = work
        self._runners = Runners(folder)
        self._layout = Shifted(inner=driver(work.terms.device.kind).compiler())
        self._builder = Builder(self._layout, Cache(folder), place)

    @property
    def device(self) -> Device:
        return self._work.terms.device

    def pair(self) -> dict[str, tuple[Config, Built]]:
        """Build the default config and a second config that is about as fast, and return both."""
        terms = self._work.terms
        space = self._work.copy.family.space(terms.problem, terms.device, terms.objective)
        first = self._built(space.default())
        assert first is not None, "the default config does not compile"
        for config in space.sample(np.random.default_rng(terms.seed), 40, ()):
            if config == space.default() or (other := self._built(config)) is None:
                continue
            built = {"a": (space.default(), first), "b": (config, other)}
            try:
                samples = self.process(built, rounds=5, series={"a": "a", "b": "b"}, entropy=0)
            except CandidateFault:
                continue
            ratio = np.median(samples["b"]) / np.median(samples["a"])
            if 1 / NEAR < ratio < NEAR:
                return built
        raise SystemExit("no second config is about as fast as the default")

    def process(
        self, built: dict[str, tuple[Config, Built]], *, rounds: int, series: dict[str, str], entropy: int
    ) -> dict[str, list[float]]:
        """Time the kernels in a fresh process, and return the samples in µs by series."""
        terms = self._work.terms
        child = self._runners.fresh(self._work, entropy)
        try:
            for name, (_, each) in built.items():
                request = Verify(candidate=name, kernels=each.kernels, launches=1)
                ask(child, request, Verified, stage="verify", limit_s=terms.policy.verify_timeout_s)
            compare = Compare(series=series, rounds=rounds, baselines=False, budget_s=60.0)
            compared = ask(child, compare, Compared, stage="measure", limit_s=120.0)
        finally:
            child.kill()
        return {name: list(timing.samples_us) for name, timing in compared.series.items()}

    def elsewhere(
        self, pair: dict[str, tuple[Config, Built]], *, rounds: int, rng: np.random.Generator
    ) -> dict[str, list[float]]:
        """Time the kernels in a fresh process with a random memory layout, and return the samples in µs by series."""
        built: dict[str, tuple[Config, Built]] = {}
        for name, kernel in SERIES.items():
            self._layout.draw(rng)
            config = pair[kernel][0]
            made = self._built(config)
            assert made is not None, "the config cannot be built again"
            built[name] = (config, made)
        with stack(rng):
            samples = self.process(built, rounds=rounds, series={name: name for name in SERIES}, entropy=0)
        for _, each in built.values():
            each.discard()
        return samples

    def _built(self, config: Config) -> Built | None:
        built = self._builder.build(self._work, config)
        return built if built.refusal is None else None


@contextmanager
def recorder(family: str, problem: str, kind: DeviceKind, folder: Path) -> Iterator[Recorder]:
    package, device = find(family), driver(kind).discover(folder)[0]
    terms = SearchTerms(
        search_id=0,
        family=FamilyRef(name=package.family.name, digest=package.digest),
        problem=package.family.problem(problem, device.kind),
        device=device,
        objective=Objective(),
        policy=Policy(seeds=1),
        seed=0,
    )
    with scratch() as place:
        work = Assignment(terms=terms, copy=Families(place / "families").add(package))
        with exclusive(device.uuid):
            yield Recorder(work, folder, place)


def main(arguments: list[str]) -> int:
    """Time both configs in fresh processes, and save all samples after each process."""
    options = _parser().parse_args(arguments)
    begun, rng = time.monotonic(), np.random.default_rng(options.seed)
    processes: list[dict[str, list[float]]] = []
    with recorder(options.family, options.problem, options.device, options.cache) as recording:
        pair = recording.pair()
        about = {
            "family": options.family,
            "problem": options.problem,
            "a": settings_text(pair["a"][0]),
            "b": settings_text(pair["b"][0]),
            "device": f"{recording.device.model} ({recording.device.architecture})",
            **recording.device.software,
        }
        if options.layouts:
            about["layouts"] = "random positions of the stack for each process, and of the code for each series"
        print(about, flush=True)
        while len(processes) < options.processes and time.monotonic() - begun < options.seconds:
            if options.layouts:
                processes.append(recording.elsewhere(pair, rounds=options.rounds, rng=rng))
            else:
                processes.append(recording.process(pair, rounds=options.rounds, series=SERIES, entropy=0))
            Noise(about=about, processes=tuple(processes)).save(options.to)
            medians = {name: round(float(np.median(samples)), 2) for name, samples in processes[-1].items()}
            print(len(processes), medians, flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--family", default="sdpa")
    parser.add_argument("--problem", default="B=1,H=2,S=256,D=64")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--processes", type=int, default=55)
    parser.add_argument(
        "--layouts", action="store_true", help="use a new random memory layout for each process (only on CPUs)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the layouts")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=900.0, help="maximum duration in seconds")
    parser.add_argument("--cache", type=Path, default=Path("build/verdict-cache"))
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
