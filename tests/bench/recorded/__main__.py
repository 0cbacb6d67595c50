"""Measures all configs of reduced spaces of built-in families: ``python -m tests.bench.recorded --to FOLDER``.

An interrupted recording continues if the command is repeated with the same folder. With several GPUs, run one command
per GPU, each with different spaces and different cores.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from evo.device import DeviceKind
from tests.bench.recorded.recorder import Record, record
from tests.bench.recorded.reduced import DEFINITIONS, definitions
from workers.backends import driver
from workers.build.build import Builder
from workers.build.cache import Cache
from workers.system.device_lock import exclusive
from workers.system.scratch import scratch


def main(arguments: Sequence[str]) -> int:
    """Measure until all configs are recorded or the maximum duration is over. Return status 2 if there is no device."""
    options = _parser().parse_args(arguments)
    until_s = time.monotonic() + 60 * options.minutes
    chosen = [each for each in definitions(options.definitions) if not options.only or each.name in options.only]
    kind: DeviceKind = options.device
    chosen_driver = driver(kind)
    options.cache.mkdir(parents=True, exist_ok=True)
    options.to.mkdir(parents=True, exist_ok=True)
    devices = chosen_driver.discover(options.cache)
    if len(devices) <= options.unit:
        print(
            f"no device of kind {kind} has the number {options.unit}; there are {len(devices)}, counted from 0",
            file=sys.stderr,
        )
        return 2
    device = devices[options.unit]
    with scratch() as place, exclusive(device.uuid):
        builder = Builder(chosen_driver.compiler(), Cache(options.cache), place)
        records = [
            Record(
                each,
                device,
                path=options.to / f"{each.name}.jsonl",
                seed=options.seed,
                scratch=place,
                cache=options.cache,
            )
            for each in chosen
        ]
        sizes = {each.reduced.name: each.space.valid_count for each in records}
        print(f"{device.model} {device.uuid}: {sizes}", flush=True)
        begun = time.monotonic()
        measured = record(records, builder, jobs=options.jobs, until_s=until_s)
        print(f"{measured} configs measured in {time.monotonic() - begun:.0f} s", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recorded", description=__doc__)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="folder of the recordings")
    parser.add_argument("--only", nargs="*", metavar="SPACE", help="measure only these spaces")
    parser.add_argument(
        "--definitions", type=Path, default=DEFINITIONS, metavar="FILE", help="TOML file that defines the spaces"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--unit", type=int, default=0, metavar="N", help="number of the device, counted from 0")
    parser.add_argument(
        "--jobs", type=int, default=8, metavar="N", help="number of parallel builds (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="maximum duration in minutes (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the order of configs")
    parser.add_argument("--cache", type=Path, default=Path("build/recorded-cache"), metavar="FOLDER")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
