"""Converts recordings to common formats: ``python -m tests.bench.recorded.write --help``.

The command writes a compressed Kernel Tuner cache and T4 results for each space. Equal recordings give equal files.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evo.space.recording import Costs, Entry, Recording, cache_document, config_key, recording_name, results_document
from evo.trial import Config, Value
from tests.bench.recorded.recorder import Line
from tests.bench.recorded.reduced import DEFINITIONS, Reduced, definitions


def documents(path: Path, reduced: Reduced, *, prefix: str) -> dict[str, dict[str, Any]]:
    """Return the documents of a recording by file name.

    Tunables with a single value are stored once under ``fixed``, not in each config.
    """
    first, *rest = path.read_text().splitlines()
    header: dict[str, Any] = json.loads(first)
    lines = sorted((Line.read(text) for text in rest), key=lambda line: config_key(line.config))
    values = {name: _recorded(name, lines, reduced) for name in lines[0].config}
    tunables = {name: each for name, each in values.items() if len(each) > 1}
    fixed = {name: each[0] for name, each in values.items() if len(each) == 1}
    entries = {config_key(config): entry for config, entry in (_entry(line, list(tunables)) for line in lines)}
    name = recording_name(f"{prefix}-{header['name']}")
    recording = Recording(name=name, device=header["device"], tunables=tunables, entries=entries)
    facts = {
        "problem": header["problem"],
        "fixed": fixed,
        "environment": {
            "architecture": header["architecture"],
            **header["software"],
            "cache": "hot",
            "protocol": header["protocol"],
            "samples": header["rounds"],
            "cases": header["cases"],
        },
        "valid_configs": header["valid_configs"],
    }
    sizes = [int(text) for text in _numbers(header["problem"])]
    return {
        f"{name}.json.gz": cache_document(recording, kernel=header["family"], problem_size=sizes, **facts),
        f"{name}.t4.json.gz": results_document(recording, kernel_name=header["family"], **facts),
    }


def _recorded(name: str, lines: Sequence[Line], reduced: Reduced) -> tuple[Value, ...]:
    """Return the recorded values of a tunable, in the order of the reduced space."""
    found = list(dict.fromkeys(line.config[name] for line in lines))
    order = list(reduced.tunables.get(name, found))
    return tuple(sorted(found, key=order.index))


def _entry(line: Line, names: Sequence[str]) -> tuple[Config, Entry]:
    config = {name: line.config[name] for name in names}
    costs = Costs(compile_s=line.compile_s, verify_s=line.verify_s, benchmark_s=line.benchmark_s)
    return config, Entry(config=config, outcome=line.outcome, costs=costs)


def _numbers(problem: str) -> list[str]:
    return [text for text in (part.partition("=")[2] for part in problem.split(",")) if text.isdecimal()]


def write(document: Mapping[str, Any], path: Path) -> None:
    """Write a compressed file. Equal documents give equal bytes."""
    content = json.dumps(document, separators=(",", ":")).encode()
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(content)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    for reduced in definitions(options.definitions):
        lines = options.lines / f"{reduced.name}.jsonl"
        if not lines.exists():
            continue
        for name, document in documents(lines, reduced, prefix=options.prefix).items():
            write(document, options.to / name)
            print(options.to / name)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recorded.write", description=__doc__)
    parser.add_argument("--lines", type=Path, required=True, metavar="FOLDER", help="folder of the recordings")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="folder for the files")
    parser.add_argument("--prefix", required=True, metavar="TEXT", help="prefix of file names, e.g. h100")
    parser.add_argument(
        "--definitions", type=Path, default=DEFINITIONS, metavar="FILE", help="TOML file that defines the spaces"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
