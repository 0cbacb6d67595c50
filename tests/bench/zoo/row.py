"""Stores the results of calls in a file, so that a later run can continue."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from evo.promotion.statistics import Interval
from evo.trial import Value


@dataclass(frozen=True, kw_only=True)
class Row:
    """Result of a call.

    Attributes:
        problem: the problem in the form of the suite.
        time_us: median time of the best config in µs; None if unknown. `trouble` then contains the reason.
        baseline: name of the fastest baseline.
        ratio: median of the baseline's time divided by the config's time, with its interval; None if no baseline ran.
        timed: ``confirmed`` for times of the search's confirmation, ``side by side`` for times of one process after the
            search.
        baselines_us: median times in µs of the baselines that ran, by name.
        absent: reasons why baselines did not run, by name.
    """

    name: str
    family: str
    problem: str
    cache: str
    device: str = ""
    time_us: float | None = None
    baseline: str | None = None
    ratio: Interval | None = None
    timed: Literal["", "confirmed", "side by side"] = ""
    trials: int = 0
    seconds: float = 0.0
    config: Mapping[str, Value] = field(default_factory=dict)
    baselines_us: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Key of the call in the file of results."""
        return self.family, self.problem, self.cache

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the call's row in a table."""
        ratio = "–" if self.ratio is None else f"{self.ratio.estimate:.2f} ({self.ratio.low:.2f}–{self.ratio.high:.2f})"
        time_us = "–" if self.time_us is None else f"{self.time_us:.2f}"
        baseline_us = self.baselines_us.get(self.baseline or "")
        fastest = self.baseline or ""
        fastest += "" if baseline_us is None else f" {baseline_us:.2f}"
        told = " ".join(filter(None, (fastest, self.trouble)))
        return self.name, self.family, self.problem, self.cache, time_us, told, ratio, self.timed, str(self.trials)


HEADER = ("call", "family", "problem", "cache", "time, µs", "fastest baseline, µs", "ratio", "timed", "trials")
_ROW = TypeAdapter(Row)


class Results:
    """Rows of a file, with one JSON object per line. Each finished call is appended immediately.

    Args:
        path: the file. If None, the rows are kept only in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        try:
            rows = [_ROW.validate_json(line) for line in lines if line.strip()]
        except ValidationError as error:
            raise SystemExit(f"{path} contains no results of bench-zoo; name another file: {error}") from None
        self._rows = {row.key: row for row in rows}

    def add(self, row: Row) -> None:
        self._rows[row.key] = row
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(_ROW.dump_python(row, mode="json"), ensure_ascii=False) + "\n")

    def __contains__(self, key: tuple[str, str, str]) -> bool:
        return key in self._rows

    def row(self, key: tuple[str, str, str]) -> Row:
        """Return the last row of a call, with or without a ratio."""
        return self._rows[key]

    def get(self, key: tuple[str, str, str]) -> Row | None:
        """Return the last row of a call; None if it has no ratio yet."""
        row = self._rows.get(key)
        return None if row is None or row.ratio is None else row

    @property
    def devices(self) -> Sequence[str]:
        """Models of the devices on which the rows were measured."""
        return sorted({row.device for row in self._rows.values() if row.device})
