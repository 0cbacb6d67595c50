"""Runs that were played before, on disk: what is the same is never played twice, and a stopped bench goes on."""

import json
from collections.abc import Iterable
from pathlib import Path

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run


class Archive:
    """One file of JSON lines for each contestant, space and course; a line for each seed.

    Args:
        folder: made when the first run is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def runs(self, contestant: Contestant, ground: Ground, course: Course) -> dict[int, Run]:
        """By seed. A line that was cut off when the bench was killed is left out."""
        path = self._path(contestant, ground, course)
        found = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                document = json.loads(line)
            except json.JSONDecodeError:
                continue
            seed = document.pop("seed")
            found[seed] = Run(**document)
        return found

    def keep(self, contestant: Contestant, ground: Ground, course: Course, runs: Iterable[tuple[int, Run]]) -> None:
        path = self._path(contestant, ground, course)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"seed": seed} | run.document(), separators=(",", ":")) for seed, run in runs]
        with path.open("a") as file:
            file.write("\n" + "\n".join(lines) + "\n")

    def _path(self, contestant: Contestant, ground: Ground, course: Course) -> Path:
        slug = "".join(letter if letter.isalnum() else "-" for letter in contestant.name)
        return self._folder / f"{slug}-{contestant.digest}" / f"{ground.name}-{ground.digest}-{course.key}.jsonl"
