"""Stores runs on disk, so that equal runs are not repeated and an interrupted benchmark can continue.

``python -m tests.bench.strategy.archive FOLDER NAME`` copies the runs of a slow contestant to the repository, because
repeating them would take hours.
"""

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run

FIELDS = [each.name for each in fields(Run)]
PLAYED = Path(__file__).resolve().parents[2] / "data" / "played"
"""Folder of the compressed runs in the repository."""


class Archive:
    """Files of JSON lines, one per contestant, space and course, with a line per seed.

    Args:
        folder: folder of the archive. It is created when the first run is stored.
        played: folder of the compressed runs in the repository. It is only read.
    """

    def __init__(self, folder: Path, played: Path = PLAYED) -> None:
        self._folder = folder
        self._played = played

    def runs(self, contestant: Contestant, ground: Ground, course: Course) -> dict[int, Run]:
        """Return the stored runs by seed. Lines that a killed benchmark left incomplete are skipped."""
        place = _place(contestant, ground, course)
        lines = _by_seed(self._played / f"{place}.gz") | _by_seed(self._folder / place)
        documents = {seed: json.loads(line) for seed, line in lines.items()}
        return {seed: Run(**{name: document[name] for name in FIELDS}) for seed, document in documents.items()}

    def keep(self, contestant: Contestant, ground: Ground, course: Course, runs: Iterable[tuple[int, Run]]) -> None:
        path = self._folder / _place(contestant, ground, course)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"seed": seed} | run.document(), separators=(",", ":")) for seed, run in runs]
        with path.open("a") as file:
            file.write("\n" + "\n".join(lines) + "\n")


def publish(folder: Path, contestant: str, played: Path = PLAYED) -> Iterator[Path]:
    """Write the compressed runs of a contestant, sorted by seed. Yield the written files."""
    for source in sorted(folder.glob(f"{_slug(contestant)}-*/*.jsonl")):
        path = played / source.parent.name / f"{source.name}.gz"
        lines = _by_seed(path) | _by_seed(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        ordered = "".join(f"{lines[seed]}\n" for seed in sorted(lines))
        path.write_bytes(gzip.compress(ordered.encode(), mtime=0))  # without a time stamp, equal runs give equal bytes
        yield path


def _place(contestant: Contestant, ground: Ground, course: Course) -> Path:
    name = f"{ground.name}-{ground.digest}-{course.key}.jsonl"
    return Path(f"{_slug(contestant.name)}-{contestant.digest}") / name


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _by_seed(path: Path) -> dict[int, str]:
    """Return the complete lines of a plain or compressed file, by seed."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    found = {}
    for line in (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines():
        try:
            found[json.loads(line)["seed"]] = line
        except json.JSONDecodeError:
            continue
    return found


if __name__ == "__main__":
    for written in publish(Path(sys.argv[1]), sys.argv[2]):
        print(written)
